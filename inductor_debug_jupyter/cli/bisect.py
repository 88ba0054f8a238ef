"""``inductor-debug bisect module:attribute``: which step from eager to the device brings an error in."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from inductor_debug_jupyter.cli.terminal import printable
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, UsageError

if TYPE_CHECKING:
    from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter

SUMMARY = "run a model one step at a time (eager, Dynamo, AOT, Inductor, adapter) and name the first bad one"
EXAMPLES = """\
  inductor-debug bisect my_package.models:make_model
  inductor-debug bisect models:make_model --adapter my_chip:Adapter --run-all
"""
_SHAPE = "such as my_package.my_module:make_model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "factory", metavar="MODULE:ATTRIBUTE", help="a function without arguments that returns (model, inputs)"
    )
    parser.add_argument(
        "--adapter",
        metavar="MODULE:ATTRIBUTE",
        help="the accelerator's adapter (its class or an object): the last rung",
    )
    parser.add_argument("--run-all", action="store_true", help="go on after the first rung that is not good")


def run(args: argparse.Namespace) -> int:
    """Print the ladder; 1 when a rung is bad or none could be compared."""
    model, inputs = _model_of(args.factory)
    adapter = None if args.adapter is None else _adapter_of(args.adapter)
    from inductor_debug_jupyter.pipeline.bisect import bisect_stages
    from inductor_debug_jupyter.pipeline.views.bisect import bisect_text

    record = bisect_stages(model, inputs, adapter=adapter, run_all=args.run_all)
    print(bisect_text(record))
    outcomes = {rung.outcome for rung in record.rungs}
    return 0 if "good" in outcomes and not outcomes & {"bad", "failed"} else 1


def _model_of(name: str) -> tuple[Any, Any]:
    factory = _imported(name, "bisect")
    if not callable(factory):
        raise UsageError(f"bisect: {name} must be a function that returns (model, inputs), not {_kind(factory)}")
    made = _called(factory, name, "bisect")
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise UsageError(f"bisect: {name}() must return (model, inputs); it returned {_kind(made)}")
    return made[0], made[1]


def _adapter_of(name: str) -> AcceleratorAdapter:
    found = _imported(name, "--adapter")
    from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter

    adapter = _called(found, name, "--adapter") if isinstance(found, type) else found
    if not isinstance(adapter, AcceleratorAdapter):
        raise UsageError(f"--adapter: {name} must be an AcceleratorAdapter, not {_kind(adapter)}")
    return adapter


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _called(found: Any, name: str, origin: str) -> Any:
    try:
        return found()
    except InductorDebugError:
        raise
    except Exception as error:  # the user's own code: one line that says whose it is
        raise UsageError(f"{origin}: {name}() failed: {type(error).__name__}: {error}") from error


def _imported(name: str, origin: str) -> Any:
    """The attribute that ``package.module:attribute`` names; modules of the working folder are found too."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in module_name.split(".")):
        raise UsageError(f"{origin}: {name!r} is not allowed; allowed: MODULE:ATTRIBUTE, {_SHAPE}")
    if (here := os.getcwd()) not in sys.path:  # noqa: PTH109 - sys.path holds strings
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UsageError(f"{origin}: there is no module {error.name!r} here or among the installed ones") from None
        raise UsageError(f"{origin}: {module_name} cannot be imported: {error}") from error
    except Exception as error:  # the user's module failed while it was imported
        raise UsageError(f"{origin}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    value: Any = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            near = difflib.get_close_matches(part, dir(value), n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{origin}: {printable(module_name)} has no {printable(attribute)!r}{hint}")
        value = getattr(value, part)
    return value
