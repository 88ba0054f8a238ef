"""``inductor-debug minify module:function``: the smallest script that shows how a backend fails on a model."""

from __future__ import annotations

import argparse
import sys
import uuid
from typing import Any

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.factory import model_of
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.options import add_options, read_given
from inductor_debug_jupyter.pipeline.store import Shelf

SUMMARY = "reduce a model that fails on a backend (numbers, exception, crash, hang) to the smallest script"
EXAMPLES = """\
  inductor-debug minify models:make_model                             # on inductor
  inductor-debug minify models:make_model --on my_chip:backend --timeout 20
  inductor-debug minify models:make_model --fails checks:fails --seconds 300 --output repro.py
  inductor-debug minify models:make_model                             # after Ctrl-C: goes on where it was
"""
OPTIONS = ("backward", "isolate", "timeout", "memory_limit", "artifacts")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "factory", metavar="MODULE:FUNCTION", help="a function without arguments that returns (model, inputs)"
    )
    parser.add_argument(
        "--on",
        metavar="NAME|MODULE:ATTRIBUTE",
        default="inductor",
        help="the torch.compile backend or adapter that fails; default inductor",
    )
    parser.add_argument(
        "--fails",
        metavar="MODULE:FUNCTION",
        help="instead: a function fails(gm, inputs) that says whether a graph does",
    )
    add_options(parser, OPTIONS)
    parser.add_argument("--dynamic", action="store_true", help="compile with symbolic sizes")
    parser.add_argument("--seconds", metavar="S", help="search at most so long")
    parser.add_argument("--evaluations", metavar="N", help="test at most so many graphs")
    parser.add_argument("--output", "-o", metavar="FILE", help="where to write the script; default the artifact folder")


def run(args: argparse.Namespace) -> int:
    """Print what is left, and where its script is."""
    given = read_given(args, OPTIONS)
    limits: dict[str, Any] = {
        "seconds": _number(args.seconds, "--seconds", float),
        "max_evaluations": _number(args.evaluations, "--evaluations", int),
    }
    options = {name: value for name, value in limits.items() if value is not None}
    model, inputs = model_of(args.factory, "minify")
    from inductor_debug_jupyter.pipeline.isolation import imported
    from inductor_debug_jupyter.pipeline.minify import Minifier, Progress, Trial, minifier_of

    def tell(progress: Progress) -> None:
        print(f"\r{progress} ", end="", file=sys.stderr, flush=True)

    options["on_progress"] = tell
    if args.fails is not None:
        minifier = Minifier.of_model(model, inputs, fails=imported(args.fails, "--fails"), **options)
    else:
        trial = Trial(
            args.on,
            backward=bool(given.get("backward")),
            open_sizes=args.dynamic,
            isolate=given.get("isolate"),
            timeout=given.get("timeout"),
            memory_limit=given.get("memory_limit"),
        )
        if trial.memory_limit is not None and not trial.is_isolated:
            raise UsageError("--memory-limit limits a process of its own: give --isolate as well")
        minifier = minifier_of(model, inputs, trial, journals=chosen_store(args).folder / "unfinished", **options)
    try:
        found = minifier.written(args.output or Shelf(chosen_store(args), f"minify-{uuid.uuid4().hex[:6]}"))
    finally:
        print(file=sys.stderr)
    print(found)
    return 0


def _number(text: str | None, flag: str, kind: type[float] | type[int]) -> float | None:
    try:
        number = None if text is None else kind(text)
    except ValueError:
        number = 0
    if number is not None and not number > 0:
        raise OptionError(f"{flag}: {text!r} is not allowed; allowed: a number above 0")
    return number
