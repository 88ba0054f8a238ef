"""Advice on a failed guard check: one sentence, and whether following it makes the recompile go away.

A recompile is either avoidable (a size that may be left open, a number that could be a tensor) or needed by the program
(two dtypes are two graphs). The sentence says which. For each kind a test follows the sentence in code and counts the
recompiles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records.guard_expressions import values_in

_NUMBER = re.compile(r"^-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf|nan)$")
_FIELD = re.compile(r"^L\['[^']+'\](?:\._modules\['[^']+'\])*\.(?P<name>\w+)$")
_SIZE = re.compile(r"\.size\(\)\[(\d+)\]")
_STRIDE = re.compile(r"\.stride\(\)\[(\d+)\]")
_KEY = re.compile(r"keys\(.*\)\)\[(?P<index>\d+)\] ==")
_ENDS_OF_PARTS = (".start", ".stop", ".step")
_ATTRIBUTE = re.compile(r"\]\.(?!_modules\b)\w+")
_INDEX = re.compile(r" at index (?P<index>\d+)$")
_BUILTINS = re.compile(r"\bG\['__builtins_dict___\d+'\]")
_CONSTANT = re.compile(r"\bG\['_\d+_c(\d+)'\]")
_GLOBAL = re.compile(r"^G\['([A-Za-z]\w*)'\]")
_LOCAL = re.compile(r"\bL\['([^']+)'\]")
_HELD = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")
_CELL = re.compile(r"^(?P<function>.+)\.__closure__\[\d+\]\.cell_contents")


class _FailedCheck(Protocol):
    """The fields of a failed guard check, which recompiles and the answers of ``would_recompile`` have."""

    @property
    def check(self) -> str: ...

    @property
    def expression(self) -> str: ...

    @property
    def old(self) -> str: ...

    @property
    def new(self) -> str: ...

    @property
    def aspect(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Advice:
    """``kind`` of recompile, the sentence, and whether following it removes the recompile."""

    kind: str
    text: str
    removable: bool = True


def readable_expression(expression: str) -> str:
    """The guarded expression as the user would write it: ``L['self']._modules['up']`` → ``self.up``."""
    short = _CONSTANT.sub(r"G['_c\1']", _BUILTINS.sub("builtins", expression))
    return plain(_LOCAL.sub(r"\1", _HELD.sub(r".\1", short)))


def varying(failed: _FailedCheck) -> str:
    """The value that varies, as the user would write it: ``x.shape[0]``, ``n``, ``self.gain``, ``grad_mode``."""
    name = readable_expression(_GLOBAL.sub(r"\1", failed.expression))
    if match := _CELL.match(name):
        return f"a variable that {match['function']} closes over"
    if failed.aspect == "relation":
        return " and ".join(map(as_written, values_in(failed.check))) or name
    if match := _KEY.search(failed.check):
        return f"key {match['index']} of {name}"
    if (index := _size_index(failed)) is not None and failed.aspect.startswith("size"):
        return f"{name}.shape[{index}]"
    if failed.aspect.startswith("stride"):
        return f"{name}.stride({_size_index(failed)})"
    if failed.check.startswith("len("):
        return f"len({name})"
    if failed.aspect in ("dtype", "requires_grad"):
        return f"{name}.{failed.aspect}"
    return name or plain(failed.aspect) or "something that torch does not name"


def advice(failed: _FailedCheck) -> Advice:
    """The advice for a failed check, by the aspect of the value that changed."""
    aspect, name = failed.aspect.partition(" at index")[0], readable_expression(_GLOBAL.sub(r"\1", failed.expression))
    if aspect == "relation":
        return _of_relation(failed)
    if aspect == "size":
        return _of_size(failed, name)
    if aspect in _OF_TENSORS:
        return Advice(aspect, _OF_TENSORS[aspect].format(name=name, old=_dtype(failed.old), new=_dtype(failed.new)))
    if aspect == "dispatch key set":
        return _of_dispatch(failed, name)
    if not failed.expression and aspect:
        return _of_state(aspect)
    if aspect in ("identity", "type", "aliasing", "contents"):
        return _of_object(failed, aspect, name)
    return _of_value(failed, name)


_OF_TENSORS = {
    "dtype": "Give it one dtype: {name}.to(torch.{old}) before the call. Where both dtypes are wanted there are two"
    " graphs; that can't be removed.",
    "stride": "Give it one memory layout: {name}.contiguous() before the call.",
    "requires_grad": "Let it always or never require a gradient: {name}.detach() or {name}.requires_grad_() before the"
    " call. Where both are wanted there are two graphs; that can't be removed.",
    "rank": "Give it one number of dimensions, with {name}.unsqueeze(0) or reshape before the call. A graph has a fixed"
    " number of dimensions; for others there is another graph, and that can't be removed.",
}

_SWITCHES = {
    "grad_mode": "Call it always with gradients or always under torch.no_grad(). Training and inference are two graphs;"
    " where both are wanted, that can't be removed.",
    "num_threads": "Call torch.set_num_threads() once, before the first call.",
    "default_dtype": "Call torch.set_default_dtype() once, before the first call.",
    "deterministic_algorithms": "Call torch.use_deterministic_algorithms() once, before the first call.",
    "marking": "Mark the dimension before the first call, and on every tensor that is passed in its place.",
    "torch function modes": "Call it always inside or always outside of `with torch.device(...)` and other torch"
    " function modes; where both are wanted there are two graphs, and that can't be removed.",
}


def _of_relation(failed: _FailedCheck) -> Advice:
    """A condition that a line of the model made of sizes or numbers."""
    is_size = ".size()[" in failed.check
    if is_size and failed.new in {"0", "1"}:
        return _size_of_one(readable_expression(failed.expression))
    return Advice(
        "size relation" if is_size else "number relation",
        f"A line of the model depends on {varying(failed)}, so there is a graph for each way it can go"
        f" ({as_written(failed.old)}). That can't be removed without changing the line.",
        removable=False,
    )


def _size_of_one(name: str) -> Advice:
    return Advice(
        "size 0 or 1",
        f"A dimension of size 0 or 1 always gets a graph of its own: that can't be removed; it compiles once."
        f" Pad {name} to 2 or more where it happens often.",
        removable=False,
    )


def _of_size(failed: _FailedCheck, name: str) -> Advice:
    index = _size_index(failed)
    if {"0", "1"} & {failed.old, failed.new}:
        return _size_of_one(name)
    if "_parameters[" in failed.expression or "_buffers[" in failed.expression:
        return Advice(
            "parameter size",
            f"{name} has another size: a module with other parameters is compiled for itself. It can be left open with"
            " torch._dynamo.config.force_parameter_static_shapes = False.",
        )
    return Advice(
        "size",
        f"Leave the dimension open: torch._dynamo.mark_dynamic({name}, {index}) before the first call, or"
        " torch.compile(..., dynamic=True).",
    )


def _of_dispatch(failed: _FailedCheck, name: str) -> Advice:
    keys = f"{failed.old}, {failed.new}"
    if "Conjugate" in keys or "Negative" in keys:
        return Advice("conjugate", f"Give it real memory: {name}.resolve_conj().resolve_neg() before the call.")
    if "Sparse" in keys:
        return Advice("layout", f"Give it one layout: {name}.to_dense() before the call.")
    if "Meta" in keys or "CUDA" in keys or "PrivateUse" in keys:
        return Advice("device", f"Move it to one device before the call: {name}.to(device).")
    return Advice(
        "inference tensor",
        f"{name} was made under torch.inference_mode() one time and not the other: make it and call it in the same"
        " mode, or use torch.no_grad().",
    )


def _of_state(aspect: str) -> Advice:
    if aspect.startswith("autocast"):
        return Advice("autocast", "Call it always inside or always outside of torch.autocast. Where both are wanted"
                      " there are two graphs; that can't be removed.")  # fmt: skip
    known = _SWITCHES.get(aspect)
    kind = aspect.replace("_", " ")
    return Advice(kind, known or f"Process-wide state ({plain(aspect)}) changed between the calls: set it once before.")


def _of_object(failed: _FailedCheck, aspect: str, name: str) -> Advice:
    if aspect == "identity" and "." in failed.new and " " not in failed.new:
        return Advice("constant", f"Each value of {name} compiles once; that can't be removed.", removable=False)
    if aspect == "identity":
        what = name.removesuffix(".__code__")
        sentence = (
            f"Only that very object will do: make {what} once, before the calls, and pass the same one each time."
        )
        return Advice("identity", sentence)
    if aspect == "type" and "NoneType" in (failed.old, failed.new):
        return _of_none(name)
    if aspect == "type":
        return Advice("type", f"Pass {name} with one type each time: it was {failed.old or 'of another type'}, now"
                      f" {failed.new}.")  # fmt: skip
    if aspect == "contents":
        return Advice("contents", f"The model asks what is in {name}, and each answer is a graph: pass the same"
                      " contents each time.")  # fmt: skip
    if failed.old.startswith("different"):
        return Advice("aliasing", "Pass different tensors each time: .clone() the one that comes twice.")
    return Advice("aliasing", "Pass the same tensor twice each time, or never: .clone() one of them always.")


def _of_value(failed: _FailedCheck, name: str) -> Advice:
    if failed.check.startswith(("len(", "not ")):
        return Advice(
            "length",
            f"The model goes through {name} in Python, so each length is a graph. Pass the same length and keys each"
            " time, or one stacked tensor with torch._dynamo.mark_dynamic(tensor, 0).",
        )
    if "keys(" in failed.check:
        return Advice("keys", f"Pass {name} with the same keys in the same order each time.")
    if failed.old in ("True", "False"):
        if failed.expression.endswith(".training"):
            return Advice(
                "training", "train() and eval() compile once each: two graphs, and that can't be removed.", False
            )
        return Advice(
            "flag",
            f"Each of the two values of {name} compiles once, and no more: that can't be removed as long as it is a"
            " Python flag. One graph for both: pass a bool tensor and use torch.where.",
            removable=False,
        )
    if failed.old == "None" or failed.new == "None":
        return _of_none(name)
    if _NUMBER.match(failed.old):
        return _of_number(failed, name)
    return Advice(
        "value",
        f"Each value of {name} that occurs compiles once; that can't be removed. Where it takes many values, keep it"
        " out of what is compiled.",
        removable=False,
    )


def _of_none(name: str) -> Advice:
    return Advice("None", f"{name} with and without a value are two graphs; that can't be removed. Pass a neutral"
                  " value in place of None to have one.", removable=False)  # fmt: skip


def _of_number(failed: _FailedCheck, name: str) -> Advice:
    if failed.aspect == "part of a range":
        return Advice(
            "range",
            f"A loop over a range is unrolled, so each {name.rpartition('.')[0]} is a graph of its own; that can't be"
            " removed. Pass the same one each time, or say torch.compile(..., dynamic=False): without, torch leaves the"
            " range's numbers open after the first and gives up on a loop of unknown length.",
            removable=False,
        )
    if failed.aspect == "part of a slice":
        return Advice(
            "slice",
            f"Pass the same {name.rpartition('.')[0]} each time. Where it varies, torch compiles once more and then"
            " leaves a slice's numbers open by itself, unless they decide what is computed.",
        )
    if not failed.aspect and failed.expression.endswith(_ENDS_OF_PARTS):  # of a range, or of a module: not known
        return Advice("value", f"Each value of {name} that occurs compiles once.", removable=False)
    if failed.expression.startswith("G["):
        return Advice("global", f"Make the global {name} a tensor, torch.tensor({failed.old}), or pass it as one.")
    if _CELL.match(failed.expression):
        return Advice("closure", f"Close over a tensor, torch.tensor({failed.old}), or pass the number as one.")
    if failed.aspect == "attribute of a module" and (match := _FIELD.match(failed.expression)):
        return Advice(
            "attribute",
            f"Keep {name} in a tensor: register_buffer({match['name']!r}, torch.tensor({failed.old})) and fill_() it;"
            " or leave it alone after the first call.",
        )
    if failed.aspect.startswith("attribute") or _ATTRIBUTE.search(failed.expression):
        return Advice(
            "attribute",
            f"Let {name} be a tensor, torch.tensor({failed.old}), in place of a number; or leave it as it is after the"
            " first call.",
        )
    kind = "int" if failed.old.lstrip("-").isdigit() else "float"
    return Advice(
        kind,
        f"Pass a 0-dim tensor, torch.tensor({failed.old}), in place of the number {name}; torch compiles once more and"
        " then leaves a plain argument open by itself, unless its value decides what is computed.",
    )


def _size_index(failed: _FailedCheck) -> int | None:
    match = _INDEX.search(failed.aspect)
    return int(match["index"]) if match else None


def as_written(expression: str) -> str:
    """``L['x'].size()[0] % 2 == 0`` → ``x.shape[0] % 2 == 0``."""
    return _STRIDE.sub(r".stride(\1)", _SIZE.sub(r".shape[\1]", readable_expression(expression)))


def _dtype(name: str) -> str:
    """The Python name of a dtype's C++ name: ``Float`` → ``float32``."""
    return {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
            "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
            "ComplexFloat": "complex64", "ComplexDouble": "complex128"}.get(name, name)  # fmt: skip
