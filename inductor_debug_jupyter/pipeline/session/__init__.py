"""What a user holds; wires the rooms together.

In: settings and a block of the user's code. Out: a :class:`DebugSession` with the judged record of what was captured.

- ``debug_session``: :class:`DebugSession` with every public member, :func:`capture` and :func:`last_session`.
- ``current_record``: the record of now; the one place where a new record is saved and observers are called.
- ``candidates``: ``diff``, ``localize``, ``bisect``, ``minify``. ``error_budgets``: ``error_budget``, ``prescribe`` and
  ``narrow``. ``timings``: ``profile``. ``fixing``: from ``fixits`` to ``fix_all``. ``what_ifs``: ``try_out``.
"""

from inductor_debug_jupyter.pipeline.session.debug_session import DebugSession, capture, last_session, register_display

__all__ = ["DebugSession", "capture", "last_session", "register_display"]
