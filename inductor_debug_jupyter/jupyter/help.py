"""The texts that the magic shows: its help (``?``, ``--help``) and the pages of rules (``--explain``)."""

from __future__ import annotations

import io
import sys
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from inductor_debug_jupyter.pipeline.devices import profile_names
from inductor_debug_jupyter.pipeline.documentation import Page, explain, pages
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.options import magic_parser

_EXAMPLES = """
Put it on top of a cell; the cell itself stays as it is:

    %%inductor_debug --strict --target stick128
    model(x)

    %%inductor_debug --alignment 64 --max-memory 1GiB --as session
    loss = torch.compile(model)(x).sum()
    loss.backward()

    %%inductor_debug --diff --candidate my_chip:Adapter --isolate --timeout 60 --memory-limit 4GiB
    model(x)

    %inductor_debug --target stick128 model(x)      one expression; answers with its value
    %inductor_debug --last                          shows the last session again
    %inductor_debug --compare before after          what changed between two sessions (variables, ids or files)
    %inductor_debug --explain align.innermost       explains a rule; alone it lists them
    %inductor_debug --help                          this text

Strict mode fails the cell when the target refuses something, and writes a script that shows it.
"""


def magic_help() -> str:
    """Purpose, examples, and every option."""
    return "\n".join(
        (
            "See what torch.compile makes of a cell, and what a target would refuse.",
            _EXAMPLES,
            magic_parser().format_help().replace("usage: ", "", 1),
            f"Targets: {', '.join(profile_names())}, or a TOML file.\n",
        )
    )


def show_text(shell: Any, line: str) -> None:
    """Show what ``--help`` or ``--explain [RULE]`` asks for.

    Raises:
        UsageError: IPython's own, for a rule that there is not.
    """
    words = line.replace("--explain=", "--explain ").split()
    if "--explain" not in words:
        sys.stdout.write(magic_help())
        return
    rules = words[words.index("--explain") + 1 :][:1]
    if not rules or rules[0].startswith("--"):
        lines = [f"- `{page.name}`: {page.title.partition(': ')[2] or page.title}" for page in pages("rules").values()]
        _show(shell, "# The rules\n\n" + "\n".join(lines) + "\n\n`%inductor_debug --explain RULE` explains one.\n")
        return
    try:
        page: Page = explain(rules[0])
    except NotFoundError as error:
        raise UsageError(f"%inductor_debug --explain: {error}") from None
    _show(shell, page.text)


def _show(shell: Any, markdown: str) -> None:
    """Markdown as the front end shows it: rendered in a notebook, by rich in a terminal."""
    if hasattr(shell, "kernel"):
        display({"text/markdown": markdown, "text/plain": markdown}, raw=True)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(file=io.StringIO(), force_terminal=sys.stdout.isatty(), width=100)
    with console.capture() as drawn:
        console.print(Markdown(markdown))
    sys.stdout.write(drawn.get())
