"""Backends for ``torch.compile`` that check a graph against a target before it runs.

- :func:`mock_backend` validates, then runs the graph eagerly;
- :func:`aot_mock_backend` goes through AOTAutograd into Inductor, with every stage captured.
"""

from inductor_debug_jupyter.pipeline.backends.aot_mock import aot_mock_backend
from inductor_debug_jupyter.pipeline.backends.mock import mock_backend

__all__ = ["aot_mock_backend", "mock_backend"]
