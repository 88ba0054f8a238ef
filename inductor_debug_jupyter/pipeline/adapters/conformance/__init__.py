"""Conformance: tests whether an adapter does what it declares. An adapter in, a report with one line a check out.

``inductor-debug conformance my_package:MyAdapter`` prints the report; each check that fails says what was seen and what
to do. In a test suite::

    from inductor_debug_jupyter.pipeline.adapters.conformance import AdapterConformance

    class TestMyAdapter(AdapterConformance):
        adapter = "my_package:MyAdapter"

Each check runs the adapter on small graphs, as ``torch.compile`` passes them, and compares with eager. By default that
happens in a process of its own: an adapter that crashes fails a check, and the next check starts afresh. ``checks`` has
the checks, ``subject`` the adapter under test and the small graphs, ``suite`` runs the checks, also for pytest.
"""

from inductor_debug_jupyter.pipeline.adapters.conformance.checks import CHECKS, ConformanceCheck
from inductor_debug_jupyter.pipeline.adapters.conformance.suite import AdapterConformance, run_conformance

__all__ = ["CHECKS", "AdapterConformance", "ConformanceCheck", "run_conformance"]
