"""Backends for ``torch.compile`` that check a graph against a target before it runs.

- ``mock``: :func:`mock_backend` validates, then runs the graph eagerly; :func:`aot_mock_backend` goes through
  AOTAutograd into Inductor, with every stage captured.
- ``ledger``: what they have seen in this process, as one session. ``strict``: the error of a strict target.
"""

from inductor_debug_jupyter.pipeline.backends.mock import aot_mock_backend, mock_backend

__all__ = ["aot_mock_backend", "mock_backend"]
