"""The text behind ``%%inductor_debug?``."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.devices import profile_names
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
