"""``%load_ext inductor_debug_jupyter`` and ``%unload_ext``."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError

from inductor_debug_jupyter.jupyter.cells import CellWatcher
from inductor_debug_jupyter.jupyter.compare_magic import compare_runs_of, runs_to_compare, show_comparison
from inductor_debug_jupyter.jupyter.completion import magic_options
from inductor_debug_jupyter.jupyter.display import make_panel, show_session
from inductor_debug_jupyter.jupyter.help import magic_help, show_text
from inductor_debug_jupyter.jupyter.magic_line import NAME, asks_for_text, read_options, strip_magic_line
from inductor_debug_jupyter.jupyter.panel_registry import panels
from inductor_debug_jupyter.pipeline.capture.sources import register_cell_labels
from inductor_debug_jupyter.pipeline.comparing import RunComparison
from inductor_debug_jupyter.pipeline.options import split_magic_line
from inductor_debug_jupyter.pipeline.session import last_session, register_display

_loaded: dict[int, CellWatcher] = {}


def load(shell: Any) -> None:
    """Set everything up; loading twice changes nothing."""
    if id(shell) in _loaded:
        return
    watcher = CellWatcher(shell)
    _loaded[id(shell)] = watcher
    shell.input_transformers_cleanup.append(strip_magic_line)
    shell.events.register("pre_execute", watcher.close_lost_runs)
    shell.events.register("pre_run_cell", watcher.before_cell)
    shell.events.register("post_run_cell", watcher.after_cell)
    shell.events.register("post_run_cell", panels.after_cell)
    if hasattr(shell.display_pub, "register_hook"):  # a notebook's
        shell.display_pub.register_hook(panels.published)
    shell.Completer.custom_matchers.append(magic_options)
    shell.register_magic_function(_magic(shell, watcher), "line_cell", NAME)
    register_cell_labels(_cell_labels(shell))
    register_display(make_panel, lambda session: show_session(shell, session))
    _displays(shell).for_type(RunComparison, lambda comparison: show_comparison(shell, comparison))


def unload(shell: Any) -> None:
    """Take everything away again."""
    watcher = _loaded.get(id(shell))
    if watcher is None:
        return
    if watcher.is_running:
        raise UsageError(f"inductor_debug_jupyter cannot be unloaded by a cell that runs under %%{NAME}")
    del _loaded[id(shell)]
    shell.input_transformers_cleanup.remove(strip_magic_line)
    shell.events.unregister("pre_execute", watcher.close_lost_runs)
    shell.events.unregister("pre_run_cell", watcher.before_cell)
    shell.events.unregister("post_run_cell", watcher.after_cell)
    shell.events.unregister("post_run_cell", panels.after_cell)
    if hasattr(shell.display_pub, "unregister_hook"):
        shell.display_pub.unregister_hook(panels.published)
    shell.Completer.custom_matchers.remove(magic_options)
    _displays(shell).pop(RunComparison, None)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)


def _displays(shell: Any) -> Any:
    """What IPython displays by calling a function of ours."""
    return shell.display_formatter.ipython_display_formatter


def _cell_labels(shell: Any) -> Any:
    def lookup(file: str) -> str | None:
        number = shell.compile._filename_map.get(file)
        return None if number is None else f"In [{number}]"

    return lookup


def _magic(shell: Any, watcher: CellWatcher) -> Any:
    """The line magic: an expression, or the last session again.

    The cell form is for ``?`` and ``run_cell_magic``: a cell that has the magic on top is run by IPython itself.
    """

    def inductor_debug(line: str, cell: str | None = None) -> Any:
        if cell is not None:
            result = shell.run_cell(f"%%{NAME} {line}\n{cell}")
            result.raise_error()
            return result.result
        if asks_for_text(line):
            show_text(shell, line)
            return None
        if (runs := runs_to_compare(line)) is not None:
            return compare_runs_of(shell, runs)
        options, expression = split_magic_line(line)
        if expression:
            return watcher.run_expression(read_options(options), expression)
        if options not in ("", "--last"):
            read_options(options.replace("--last", ""))
            raise UsageError(f"%{NAME}: nothing to run: put an expression behind the options, or %%{NAME} above a cell")
        session = last_session()
        if session is None:
            raise UsageError(f"%{NAME}: nothing was captured yet: put %%{NAME} on top of a cell and run it")
        show_session(shell, session)
        return None

    inductor_debug.__doc__ = magic_help()
    return inductor_debug
