"""The notebook: IPython's events around a cell go in, a session and the panel under the cell come out.

- ``extension``: loads everything; ``magic_line``: ``%%inductor_debug`` and its options; ``completion``, ``help``;
- ``cells``: opens a session before a cell and closes, compares, binds, shows and saves it afterwards;
- ``progress``: the line under a busy cell; ``tracebacks``: our frames taken out; ``background_saving``: sessions are
  completed and written while the kernel is idle (``idle``);
- ``display``: panel or text; ``panel_registry``: which panel is under which cell; ``quick_run``: the form;
- ``compare_magic``: ``%inductor_debug --compare``;
- ``panel``: the widget and its panes, one a file; ``static``: their JavaScript and CSS.

Everything that is shown comes from the pipeline.
"""
