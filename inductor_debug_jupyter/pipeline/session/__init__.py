"""What a user holds; wires the rooms together. See :mod:`~inductor_debug_jupyter.pipeline.session.debug_session`."""

from inductor_debug_jupyter.pipeline.session.debug_session import DebugSession, capture, last_session, register_display

__all__ = ["DebugSession", "capture", "last_session", "register_display"]
