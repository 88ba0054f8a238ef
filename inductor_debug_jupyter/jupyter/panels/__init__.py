"""The widgets under a cell, one a file. :class:`DebugPanel` puts them together."""

from inductor_debug_jupyter.jupyter.panels.debug import DebugPanel

__all__ = ["DebugPanel"]
