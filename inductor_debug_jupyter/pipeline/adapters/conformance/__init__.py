"""Does an adapter keep its word? Checks that its author runs with one command.

``inductor-debug conformance my_package:MyAdapter`` prints a report of what holds; each check that fails says what was
seen and what to do. In a test suite::

    from inductor_debug_jupyter.pipeline.adapters.conformance import AdapterConformance

    class TestMyAdapter(AdapterConformance):
        adapter = "my_package:MyAdapter"

Each check runs the adapter on small graphs, as ``torch.compile`` hands them over, and compares with eager. By default
that happens in a process of its own: an adapter that crashes fails a check, and the next one starts afresh.
"""

from inductor_debug_jupyter.pipeline.adapters.conformance.checks import CHECKS, Check
from inductor_debug_jupyter.pipeline.adapters.conformance.suite import run_conformance
from inductor_debug_jupyter.pipeline.adapters.conformance.testing import AdapterConformance

__all__ = ["CHECKS", "AdapterConformance", "Check", "run_conformance"]
