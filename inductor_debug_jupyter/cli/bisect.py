"""``inductor-debug bisect module:attribute``: which step of lowering introduces an error."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from inductor_debug_jupyter.cli.factory import model_of
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.options import add_options, read_given

if TYPE_CHECKING:
    from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter

SUMMARY = "run a model one step at a time (eager, Dynamo, AOT, Inductor, adapter) and name the first bad one"
EXAMPLES = """\
  inductor-debug bisect my_package.models:make_model
  inductor-debug bisect models:make_model --adapter my_chip:Adapter --backward --run-all
  inductor-debug bisect models:make_model --adapter my_chip:Adapter --isolate --timeout 120 --memory-limit 4GiB
"""
OPTIONS = ("backward", "isolate", "timeout", "memory_limit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "factory", metavar="MODULE:ATTRIBUTE", help="a function without arguments that returns (model, inputs)"
    )
    parser.add_argument(
        "--adapter",
        metavar="NAME|MODULE:ATTRIBUTE",
        help="the accelerator's adapter, or any torch.compile backend: the last rung",
    )
    parser.add_argument(
        "--beside",
        metavar="NAME|MODULE:ATTRIBUTE",
        help="another way to the same device: tells a bug of the adapter's front end from one behind both",
    )
    add_options(parser, OPTIONS)
    parser.add_argument("--run-all", action="store_true", help="go on after the first rung that is not good")


def run(args: argparse.Namespace) -> int:
    """Print every step; 1 when one is bad or none could be compared."""
    given = read_given(args, OPTIONS)
    isolate = bool(given.get("isolate"))
    if "memory_limit" in given and not isolate:
        raise UsageError("--memory-limit limits a process of its own: give --isolate as well")
    model, inputs = model_of(args.factory, "bisect")
    adapter = None if args.adapter is None else _adapter_of(args.adapter, isolate=isolate)
    beside = None if args.beside is None else _adapter_of(args.beside, isolate=isolate)
    from inductor_debug_jupyter.pipeline.bisect import bisect_stages
    from inductor_debug_jupyter.pipeline.views.bisect import bisect_text

    record = bisect_stages(
        model,
        inputs,
        adapter=adapter,
        beside=beside,
        backward=bool(given.get("backward")),
        run_all=args.run_all,
        isolate=isolate,
        timeout=given.get("timeout"),
        memory_limit=given.get("memory_limit"),
    )
    print(bisect_text(record))
    outcomes = {rung.outcome for rung in record.rungs}
    return 0 if "good" in outcomes and not outcomes & {"bad", "failed"} else 1


def _adapter_of(name: str, *, isolate: bool) -> AcceleratorAdapter | str:
    """The adapter; with ``--isolate`` only its name: its code is not imported here."""
    from inductor_debug_jupyter.pipeline.adapters import find_adapter
    from inductor_debug_jupyter.pipeline.adapters.lookup import check_name

    if not isolate:
        return find_adapter(name, origin="--adapter")
    if ":" not in name:
        check_name(name, "--adapter")
    return name
