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
    case, name = _case(failed), readable_expression(_GLOBAL.sub(r"\1", failed.expression))
    kind = case.partition(":")[0]
    field = _FIELD.match(failed.expression)
    sentence = _SENTENCES.get(case, "Process-wide state ({aspect}) changed between the calls: set it once before.")
    text = sentence.format(
        name=name,
        old=_dtype(failed.old) if case == "dtype" else failed.old,
        new=failed.new,
        was=failed.old or "of another type",
        index=_size_index(failed),
        relation=as_written(failed.old),
        varies=varying(failed),
        whole=name.rpartition(".")[0],
        made=name.removesuffix(".__code__"),
        field=field["name"] if field else "",
        aspect=plain(failed.aspect),
    )
    return Advice(kind, text, removable=case not in _NEEDED)


_SENTENCES = {
    "size": "Leave the dimension open: torch._dynamo.mark_dynamic({name}, {index}) before the first call, or"
    " torch.compile(..., dynamic=True).",
    "size 0 or 1": "A dimension of size 0 or 1 always gets a graph of its own: that can't be removed; it compiles once."
    " Pad {name} to 2 or more where it happens often.",
    "parameter size": "{name} has another size: a module with other parameters is compiled for itself. It can be left"
    " open with torch._dynamo.config.force_parameter_static_shapes = False.",
    **dict.fromkeys(
        ("size relation", "number relation"),
        "A line of the model depends on {varies}, so there is a graph for each way it can go ({relation}). That can't"
        " be removed without changing the line.",
    ),
    "dtype": "Give it one dtype: {name}.to(torch.{old}) before the call. Where both dtypes are wanted there are two"
    " graphs; that can't be removed.",
    "stride": "Give it one memory layout: {name}.contiguous() before the call.",
    "requires_grad": "Let it always or never require a gradient: {name}.detach() or {name}.requires_grad_() before the"
    " call. Where both are wanted there are two graphs; that can't be removed.",
    "rank": "Give it one number of dimensions, with {name}.unsqueeze(0) or reshape before the call. A graph has a fixed"
    " number of dimensions; for others there is another graph, and that can't be removed.",
    "conjugate": "Give it real memory: {name}.resolve_conj().resolve_neg() before the call.",
    "layout": "Give it one layout: {name}.to_dense() before the call.",
    "device": "Move it to one device before the call: {name}.to(device).",
    "inference tensor": "{name} was made under torch.inference_mode() one time and not the other: make it and call it"
    " in the same mode, or use torch.no_grad().",
    "autocast": "Call it always inside or always outside of torch.autocast. Where both are wanted there are two graphs;"
    " that can't be removed.",
    "grad mode": "Call it always with gradients or always under torch.no_grad(). Training and inference are two graphs;"
    " where both are wanted, that can't be removed.",
    "num threads": "Call torch.set_num_threads() once, before the first call.",
    "default dtype": "Call torch.set_default_dtype() once, before the first call.",
    "deterministic algorithms": "Call torch.use_deterministic_algorithms() once, before the first call.",
    "marking": "Mark the dimension before the first call, and on every tensor that is passed in its place.",
    "torch function modes": "Call it always inside or always outside of `with torch.device(...)` and other torch"
    " function modes; where both are wanted there are two graphs, and that can't be removed.",
    "constant": "Each value of {name} compiles once; that can't be removed.",
    "identity": "Only that very object will do: make {made} once, before the calls, and pass the same one each time.",
    "type": "Pass {name} with one type each time: it was {was}, now {new}.",
    "contents": "The model asks what is in {name}, and each answer is a graph: pass the same contents each time.",
    "aliasing:different": "Pass different tensors each time: .clone() the one that comes twice.",
    "aliasing": "Pass the same tensor twice each time, or never: .clone() one of them always.",
    "length": "The model goes through {name} in Python, so each length is a graph. Pass the same length and keys each"
    " time, or one stacked tensor with torch._dynamo.mark_dynamic(tensor, 0).",
    "keys": "Pass {name} with the same keys in the same order each time.",
    "training": "train() and eval() compile once each: two graphs, and that can't be removed.",
    "flag": "Each of the two values of {name} compiles once, and no more: that can't be removed as long as it is a"
    " Python flag. One graph for both: pass a bool tensor and use torch.where.",
    "None": "{name} with and without a value are two graphs; that can't be removed. Pass a neutral value in place of"
    " None to have one.",
    "value": "Each value of {name} that occurs compiles once; that can't be removed. Where it takes many values, keep"
    " it out of what is compiled.",
    "value:of a part": "Each value of {name} that occurs compiles once.",
    "range": "A loop over a range is unrolled, so each {whole} is a graph of its own; that can't be removed. Pass the"
    " same one each time, or say torch.compile(..., dynamic=False): without, torch leaves the range's numbers open"
    " after the first and gives up on a loop of unknown length.",
    "slice": "Pass the same {whole} each time. Where it varies, torch compiles once more and then leaves a slice's"
    " numbers open by itself, unless they decide what is computed.",
    "global": "Make the global {name} a tensor, torch.tensor({old}), or pass it as one.",
    "closure": "Close over a tensor, torch.tensor({old}), or pass the number as one.",
    "attribute:of a module": "Keep {name} in a tensor: register_buffer({field!r}, torch.tensor({old})) and fill_() it;"
    " or leave it alone after the first call.",
    "attribute": "Let {name} be a tensor, torch.tensor({old}), in place of a number; or leave it as it is after the"
    " first call.",
    **dict.fromkeys(
        ("int", "float"),
        "Pass a 0-dim tensor, torch.tensor({old}), in place of the number {name}; torch compiles once more and then"
        " leaves a plain argument open by itself, unless its value decides what is computed.",
    ),
}
"""Case → what to do. A case is a kind of recompile, with a variant behind a colon."""
_NEEDED = frozenset(
    {
        *("size 0 or 1", "size relation", "number relation", "constant", "training", "flag", "None"),
        *("value", "value:of a part", "range"),
    }
)
"""The cases in which the program needs the recompile: no advice removes it."""


def _case(failed: _FailedCheck) -> str:
    """The key of :data:`_SENTENCES`; process-wide state without a sentence of its own goes by its name."""
    aspect = failed.aspect.partition(" at index")[0]
    if aspect in ("relation", "size"):
        return _size_case(failed, aspect)
    if aspect in ("dtype", "stride", "requires_grad", "rank"):
        return aspect
    if aspect == "dispatch key set":
        return _dispatch_case(f"{failed.old}, {failed.new}")
    if not failed.expression and aspect:
        return "autocast" if aspect.startswith("autocast") else aspect.replace("_", " ")
    if aspect in ("identity", "type", "aliasing", "contents"):
        return _object_case(failed, aspect)
    return _value_case(failed)


def _size_case(failed: _FailedCheck, aspect: str) -> str:
    """A size, or a condition that a line of the model made of sizes or numbers."""
    if aspect == "relation":
        is_size = ".size()[" in failed.check
        if is_size and failed.new in {"0", "1"}:
            return "size 0 or 1"
        return "size relation" if is_size else "number relation"
    if {"0", "1"} & {failed.old, failed.new}:
        return "size 0 or 1"
    return "parameter size" if re.search(r"_(?:parameters|buffers)\[", failed.expression) else "size"


def _dispatch_case(keys: str) -> str:
    for words, case in (("Conjugate Negative", "conjugate"), ("Sparse", "layout"), ("Meta CUDA PrivateUse", "device")):
        if any(word in keys for word in words.split()):
            return case
    return "inference tensor"


def _object_case(failed: _FailedCheck, aspect: str) -> str:
    if aspect == "identity" and "." in failed.new and " " not in failed.new:
        return "constant"
    if aspect == "type" and "NoneType" in (failed.old, failed.new):
        return "None"
    return "aliasing:different" if aspect == "aliasing" and failed.old.startswith("different") else aspect


def _value_case(failed: _FailedCheck) -> str:
    if failed.check.startswith(("len(", "not ")):
        return "length"
    if "keys(" in failed.check:
        return "keys"
    if failed.old in ("True", "False"):
        return "training" if failed.expression.endswith(".training") else "flag"
    if "None" in (failed.old, failed.new):
        return "None"
    return _number_case(failed) if _NUMBER.match(failed.old) else "value"


def _number_case(failed: _FailedCheck) -> str:
    if failed.aspect in ("part of a range", "part of a slice"):
        return failed.aspect.rpartition(" ")[2]
    if not failed.aspect and failed.expression.endswith(_ENDS_OF_PARTS):  # of a range, or of a module: not known
        return "value:of a part"
    if failed.expression.startswith("G["):
        return "global"
    if _CELL.match(failed.expression):
        return "closure"
    if failed.aspect == "attribute of a module" and _FIELD.match(failed.expression):
        return "attribute:of a module"
    if failed.aspect.startswith("attribute") or _ATTRIBUTE.search(failed.expression):
        return "attribute"
    return "int" if failed.old.lstrip("-").isdigit() else "float"


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
