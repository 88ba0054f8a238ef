"""``inductor-debug diff A B``: compare two recordings, such as of two machines."""

from __future__ import annotations

import argparse

from inductor_debug_jupyter.cli.terminal import print_json
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import add_options, read_given

SUMMARY = "compare two recordings (safetensors), such as a device's outputs and eager's, output by output"
EXAMPLES = """\
  inductor-debug diff eager.safetensors device.safetensors
  inductor-debug diff eager.safetensors device.safetensors --rtol 1e-2 --pictures visualizations
  inductor-debug diff eager.safetensors device.safetensors --require pcc=0.99,sqnr=40dB
  inductor-debug diff eager.safetensors device.safetensors --format json  # all figures
"""
_SHARED = ("numerics", "require")
"""Options that the magic has too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("reference", metavar="REFERENCE", help="what it should be: a safetensors file")
    parser.add_argument("candidate", metavar="CANDIDATE", help="what it is: another one")
    for name, what in (("atol", "absolute"), ("rtol", "relative")):
        explained = f"the {what} tolerance; default that of torch.testing for the dtype"
        parser.add_argument(f"--{name}", metavar="NUMBER", help=explained)
    add_options(parser, _SHARED)
    parser.add_argument(
        "--equal-nan", action=argparse.BooleanOptionalAction, help="NaN on both sides is equal; default that it is"
    )
    parser.add_argument("--pictures", metavar="FOLDER", help="also write heatmaps there, as PNG")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default text")


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 1 when something is wrong or was not compared."""
    atol, rtol = (_number(getattr(args, name), f"--{name}") for name in ("atol", "rtol"))
    from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, compare_recordings

    given = read_given(args, _SHARED)
    config = ComparisonConfig(atol=atol, rtol=rtol, equal_nan=args.equal_nan, **given)
    report = compare_recordings(args.reference, args.candidate, config)
    if args.pictures is not None:
        report = report.with_files(args.pictures, pictures=True)
    if args.format == "json":
        print_json(report.to_dict())
    else:
        print(report)
    return 0 if report.passed else 1


def _number(text: str | None, flag: str) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"{flag}: {text!r} is not allowed; allowed: a number that is not negative") from None
