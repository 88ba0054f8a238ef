"""The panel under a cell: one widget, whose panes are classes here and modules in ``static/panel``.

``widget`` is the widget; ``wire`` says what the page may ask; ``parts`` is the state that the page shows; ``panes``
puts the panes of one session together, each of which has a file; ``assets`` joins JavaScript and CSS.
"""

from inductor_debug_jupyter.jupyter.panel.widget import DebugPanel

__all__ = ["DebugPanel"]
