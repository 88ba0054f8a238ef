"""The same change without us: sizes, dtypes and copies where they stand in the user's own source.

``nn.Linear(784, 512)`` becomes ``nn.Linear(832, 512)``, and ``torch.randn(64, 784)`` grows with it. A number is changed
only where it is known to be a size: in a layer, in a tensor that is made, or in a name that is given to one of those.
What is computed, or stands in a library, cannot be written; then there is no such patch at all, since half of a change
is none. A model that is built so has other weights, and more of them, than the one that was captured: it is to be
trained, or given padded weights. It was not run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt
from inductor_debug_jupyter.pipeline.fixits.patch import Edit, Patch, Source, patch_of
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.records import SessionRecord

_BY_METHOD = {"float64": "double", "float32": "float", "float16": "half", "bfloat16": "bfloat16"}
_ALSO = {"double": "float64", "float": "float32", "half": "float16"}
_ALL = 99
_SIZES = {
    **dict.fromkeys(("Linear", "Embedding", "RNN", "LSTM", "GRU"), 2),
    **{f"{kind}{rank}d": 2 for kind in ("Conv", "ConvTranspose") for rank in (1, 2, 3)},
    **{f"BatchNorm{rank}d": 1 for rank in (1, 2, 3)},
    **dict.fromkeys(("LayerNorm", "RMSNorm", "MultiheadAttention"), 1),
    **dict.fromkeys(("randn", "rand", "zeros", "ones", "empty", "full", "view", "reshape", "Parameter"), _ALL),
}
"""Callee → how many of its first arguments are sizes."""
_KEYWORDS = frozenset(
    (
        *("in_features", "out_features", "in_channels", "out_channels", "num_embeddings", "embedding_dim"),
        *("normalized_shape", "num_features", "num_channels", "num_labels", "num_classes", "vocab_size"),
        *("hidden_size", "input_size", "intermediate_size", "embedding_size", "state_size", "d_model", "size"),
        *("hidden_dim", "embed_dim", "dim", "width", "channels"),
    )
)


def own_sources(record: SessionRecord) -> dict[str, str]:
    """The sources of a session that are the user's to change: cells, and files that no installer put there."""
    lines = [
        line
        for capture in record.captures
        for graph in capture.graphs.values()
        for node in graph.calls
        for line in (node.source, node.cell)
        if line is not None
    ]
    installed = {line.label for line in lines if "site-packages" in line.file or "dist-packages" in line.file}
    return {label: text for label, text in record.sources.items() if label not in installed}


def plain_patch(fixits: Iterable[FixIt], texts: Mapping[str, str]) -> Patch:
    """The whole change as a diff of these sources (label → text), cells and files of the user's own; or why not."""
    sources = [source for label, text in texts.items() if (source := Source(label, text)).tree is not None]
    edits: dict[Source, set[Edit]] = {source: set() for source in sources}
    unwritten = []
    for fixit in fixits:
        found = {source: set(_edits(fixit.rewrite, source)) for source in sources}
        for source, each in found.items():
            edits[source] |= each
        if not any(_stands_in(source, fixit.rewrite, found[source]) for source in sources):
            unwritten.append(f"{fixit.title}: {_why_not(fixit)}")
    return Patch(unwritten=tuple(unwritten)) if unwritten else patch_of(edits)


def _stands_in(source: Source, rewrite: Rewrite, edits: set[Edit]) -> bool:
    """Whether a change is more than one of inputs: a tensor that is larger than its layer expects is a mistake."""
    pads = {**rewrite.around, **rewrite.pads}
    if not pads or source.tree is None:
        return bool(edits)
    return any(int(ast.literal_eval(each)) in pads for each in _size_constants(source.tree, layers_only=True))


def _why_not(fixit: FixIt) -> str:
    if fixit.kind == "pad":
        (size,) = {**fixit.rewrite.pads, **fixit.rewrite.around}
        return f"{size} stands in no layer of your source: it is computed, or a library's"
    if fixit.kind == "decompose":
        return "torch takes the op apart; there is no other way to call it"
    return "no line of your source says it"


def _edits(rewrite: Rewrite, source: Source) -> Iterator[Edit]:
    assert source.tree is not None
    pads = {**rewrite.around, **rewrite.pads}
    if pads:
        for number in _size_constants(source.tree):
            if to := pads.get(int(ast.literal_eval(number))):
                yield Edit(*source.span(number), str(to))
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and (dtype := _dtype(node, rewrite.casts)):
            _, end = source.span(node)
            yield Edit(end - len(node.attr), end, dtype)
        elif isinstance(node, ast.Call) and rewrite.contiguous:
            yield from _copies(node, rewrite, source)


def _size_constants(tree: ast.Module, *, layers_only: bool = False) -> Iterator[ast.Constant]:
    """Every number that is a size, or is given to a name that is used as one."""
    named: dict[str, list[ast.Constant]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_int(node.value):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    named.setdefault(target.id, []).append(node.value)  # type: ignore[arg-type]
    for node in ast.walk(tree):
        for argument in _size_arguments(node, layers_only):
            for each in ast.walk(argument):
                if _is_int(each):
                    yield each  # type: ignore[misc]
                elif isinstance(each, ast.Name):
                    yield from named.get(each.id, ())


def _size_arguments(node: ast.AST, layers_only: bool) -> Iterator[ast.expr]:
    if not isinstance(node, ast.Call):
        return
    count = _SIZES.get(_callee(node), 0)
    if count != _ALL or not layers_only:
        yield from node.args[:count]
    yield from (keyword.value for keyword in node.keywords if keyword.arg in _KEYWORDS)


def _is_int(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _callee(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _dtype(node: ast.Attribute, casts: Mapping[str, str]) -> str:
    """What ``torch.float64`` or ``.double`` becomes; empty when it stays."""
    if isinstance(node.value, ast.Name) and node.value.id == "torch":
        return casts.get(_ALSO.get(node.attr, node.attr), "")
    if node.attr in _ALSO and _ALSO[node.attr] in casts:
        return _BY_METHOD.get(casts[_ALSO[node.attr]], "")
    return ""


def _copies(node: ast.Call, rewrite: Rewrite, source: Source) -> Iterator[Edit]:
    """``relu(x.transpose(1, 2))`` → ``relu(x.transpose(1, 2).contiguous())``."""
    name = _callee(node)
    if {key.rpartition(":")[2] for key in rewrite.contiguous} & {name, f"_{name}", f"native_{name}"}:
        for turned in node.args:
            if isinstance(turned, ast.Call):
                _, end = source.span(turned)
                yield Edit(end, end, ".contiguous()")
