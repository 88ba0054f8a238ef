"""The panel under a cell: one widget, whose panes are classes here and modules in ``static/panel``.

- ``widget``: the widget. ``wire``: the requests of the page and their answers. ``panes``: the panes of one session;
  ``live_parts``: what a live session adds to a record. ``widget_closing``: closing a widget with all its parts.
- One file a pane: ``graph``, ``code``, ``memory``, ``guards``, ``kernel_diff``, ``compare``,
  ``what_if``; ``fixes`` is the strip
  above them, ``node_binder`` the button *To namespace*.
- ``charts`` and ``diff_charts``: bqplot's charts.

The state that the page shows is in ``pipeline/views/panel_parts``, its JavaScript and CSS in ``static/panel``, joined
by ``pipeline/reports/panel_assets``.
"""

from inductor_debug_jupyter.jupyter.panel.widget import DebugPanel

__all__ = ["DebugPanel"]
