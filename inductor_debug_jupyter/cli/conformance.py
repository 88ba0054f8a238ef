"""``inductor-debug conformance my_pkg:MyAdapter``: run the conformance suite on an adapter."""

from __future__ import annotations

import argparse

from inductor_debug_jupyter.cli.terminal import print_json
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.options import add_options, read_given

SUMMARY = "check an accelerator's adapter (or any torch.compile backend) on small graphs, and report what holds"
EXAMPLES = """\
  inductor-debug conformance my_chip:Adapter
  inductor-debug conformance my_chip:Adapter --timeout 60 --memory-limit 4GiB
  inductor-debug conformance aot_eager --json   # any torch.compile backend
"""
LIMITS = ("timeout", "memory_limit")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "adapter",
        metavar="MODULE:ADAPTER|NAME",
        help="the adapter's class or an object, a registered adapter, or a torch.compile backend",
    )
    add_options(parser, LIMITS)
    parser.add_argument("--no-isolate", action="store_true", help="run here, for a debugger: a crash ends the command")
    parser.add_argument("--check", action="append", metavar="ID", help="only this check; may be given several times")
    parser.add_argument("--json", action="store_true", help="the report as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 when a check fails."""
    given = read_given(args, LIMITS)
    if args.no_isolate and "memory_limit" in given:
        raise UsageError("--memory-limit limits a process of its own: leave it or --no-isolate out")
    from inductor_debug_jupyter.pipeline.adapters.conformance import run_conformance
    from inductor_debug_jupyter.pipeline.adapters.conformance.suite import DEFAULT_SECONDS

    record = run_conformance(
        args.adapter,
        isolate=not args.no_isolate,
        timeout=given.get("timeout", DEFAULT_SECONDS),
        memory_limit=given.get("memory_limit"),
        checks=args.check,
    )
    if args.json:
        import msgspec

        print_json(msgspec.to_builtins(record))
    else:
        print(record)
    return 0 if record.passed else 1
