"""What ``session.node(name)`` returns: a handle on one node of a captured graph.

:func:`bind` puts its inputs, its output and a callable of it into a namespace, under names that are free there. A name
that the user uses is never overwritten: all three values get another stem (``addmm_3_v2``), which :class:`Bound` shows.
A name that still has the value bound here before is replaced: pressing a button twice leaves one set of names.
"""

from __future__ import annotations

import builtins
import itertools
import keyword
import re
import sys
import weakref
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff.executions import EAGER, Backend, resolve_backend
from inductor_debug_jupyter.pipeline.diff.localize import INDUCTOR
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.harmless import Harmless, plain
from inductor_debug_jupyter.pipeline.nodes.candidate_graph import InParts
from inductor_debug_jupyter.pipeline.nodes.kernels import kernel_values
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode, find_node
from inductor_debug_jupyter.pipeline.nodes.reexecution import Reexecution, eager_mode
from inductor_debug_jupyter.pipeline.nodes.traced_calls import TracedCalls
from inductor_debug_jupyter.pipeline.nodes.values import NodeFunction, NodeValues
from inductor_debug_jupyter.pipeline.records import CompileCapture, NodeRecord, SourceLine
from inductor_debug_jupyter.pipeline.words import clip

_SUFFIXES = {"inputs": "_inputs", "output": "_output", "function": ""}


@dataclass(frozen=True)
class Bound(Harmless):
    """The names that were bound.

    Attributes:
        names: ``inputs``, ``output`` and ``function``, as far as they exist → the name in the namespace.
        instead_of: the name that was taken already, when others had to be chosen.
        lines: Python that uses the names, to copy.
    """

    names: dict[str, str]
    instead_of: str = ""
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        bound = f"bound {', '.join(self.names.values())}"
        return f"{bound} ({self.instead_of} was taken)" if self.instead_of else bound

    def __repr__(self) -> str:
        return "\n".join([str(self), *self.lines])


Marks = tuple[weakref.ref[Any], ...]
"""The objects of a value that can be referenced weakly: itself, or the items of a container."""

_bound: dict[int, dict[str, Marks]] = {}
"""Id of a namespace → name → what was bound; a new namespace with the id of a freed one has none of its objects."""


def _marks(value: Any) -> Marks:
    items = tuple(value.values()) if isinstance(value, dict) else value
    parts = items if isinstance(items, tuple | list) else (items,)
    return tuple(weakref.ref(each) for each in parts if type(each).__weakrefoffset__)


def bind(namespace: MutableMapping[str, Any], name: str, values: dict[str, Any], prefix: str = "") -> Bound:
    """Put values (``inputs``, ``output``, ``function``) into a namespace, all under one stem.

    Raises:
        OptionError: the prefix does not begin a name.
    """
    if prefix and not prefix.isidentifier():
        raise OptionError(f"prefix={prefix!r}; allowed: the beginning of a Python name")
    stem = re.sub(r"\W", "_", prefix + name)
    stem = stem if stem.isidentifier() else f"node_{stem}"
    known = _bound.setdefault(id(namespace), {})
    taken = ""
    for number in itertools.count(1):
        names = {kind: (stem if number == 1 else f"{stem}_v{number}") + _SUFFIXES[kind] for kind in values}
        in_the_way = [each for each in names.values() if _is_taken(namespace, each, known)]
        if not in_the_way:
            break
        taken = taken or in_the_way[0]
    for kind, value in values.items():
        namespace[names[kind]] = value
        known[names[kind]] = _marks(value)
    return Bound(names, taken)


def _is_taken(namespace: MutableMapping[str, Any], name: str, known: Mapping[str, Marks]) -> bool:
    if name in namespace:
        marks = _marks(namespace[name])
        return not marks or [id(mark()) for mark in known.get(name, ())] != [id(mark()) for mark in marks]
    return hasattr(builtins, name) or keyword.iskeyword(name) or keyword.issoftkeyword(name)


class NodeHandle(Harmless):
    """A node: its inputs, its output, and a callable of just its op.

    The first use of its values runs the kept call again, once, up to this node; then they are kept here. They are
    copies: changing them changes nothing else.

    Args:
        captured: the node.
        fetch: runs the call again.
        candidate: the backend that computes the values; empty for the reference.
    """

    def __init__(self, captured: CapturedNode, fetch: Callable[[], NodeValues], candidate: str = "") -> None:
        self._captured = captured
        self._fetch = fetch
        self._values: NodeValues | None = None
        self.candidate = candidate

    # What it is -------------------------------------------------------------------------------------------------

    @property
    def record(self) -> NodeRecord:
        """The node as it was captured: ``.shape``, ``.dtype``, ``.stride``, ``.inputs`` and more."""
        return self._captured.record

    @property
    def name(self) -> str:
        """The node's name."""
        return self.record.name

    @property
    def stage(self) -> str:
        """The graph that it is run in: ``forward``, ``backward`` or ``dynamo``."""
        return self._captured.stage

    @property
    def compile_id(self) -> str:
        """The compile id of its capture."""
        return self._captured.capture.compile_id

    @property
    def op(self) -> str:
        """The op that the node calls: ``aten.addmm.default``."""
        return self.record.target

    @property
    def module_path(self) -> str:
        """The path of the module that calls it."""
        return self.record.module_path

    @property
    def source(self) -> SourceLine | None:
        """The user's line: the deepest frame outside torch."""
        return self.record.source

    # What it computes -------------------------------------------------------------------------------------------

    @property
    def values(self) -> NodeValues:
        """All values of the node; runs the call again if they are not known yet."""
        if self._values is None:
            self._values = self._fetch()
        return self._values

    def inputs(self) -> dict[str, Any]:
        """The node's inputs by the op's names for its arguments, in their order.

        Values are tensors; numbers where a size is symbolic; lists for an argument that is a list. A kernel's inputs
        have the names of the nodes whose values they are. Constants are no inputs: :meth:`as_function` contains them.

        Raises:
            NotFoundError: the call cannot be run again, or gives other graphs now.
        """
        return self.values.inputs

    def run(self) -> Any:
        """The node's output: a tensor, or a tuple of them.

        Raises:
            NotFoundError: as :meth:`inputs`; or the value lives only inside a fused kernel.
        """
        if self.values.hidden:
            raise NotFoundError(f"{self.values.hidden}; .inputs() and .outputs() are the kernel's own")
        return self.values.output

    def outputs(self) -> dict[str, Any]:
        """All visible outputs by node: of an op its only one, of a kernel all that it writes.

        Raises:
            NotFoundError: as :meth:`inputs`.
        """
        return self.values.outputs

    def as_function(self) -> NodeFunction:
        """A callable of just this op: takes the inputs, by position or name, and returns the same as :meth:`run`.

        For a kernel: a callable of just that kernel, which returns a dict of all that it writes, by node.

        Raises:
            NotFoundError: as :meth:`inputs`.
            UsageError: the node is an input or a constant of the graph, not an op.
        """
        function = self.values.function
        if function is None:
            raise UsageError(f"{self.name} is {self.record.op.replace('_', ' ')}, not an op that could be called")
        return function

    @property
    def note(self) -> str:
        """How these values were computed; empty when eager mode's own ops did."""
        return self.values.note

    @property
    def kernel(self) -> str:
        """The kernel that computed them; empty without one."""
        return self.values.kernel

    def into(self, namespace: MutableMapping[str, Any] | None = None, prefix: str = "") -> Bound:
        """Bind ``<name>_inputs``, ``<name>_output`` and, as ``<name>``, the callable; returns the names.

        Args:
            namespace: by default the caller's globals, in a notebook the user's own.
            prefix: what every name begins with.

        Names that are taken stay as they are: others are chosen, which the answer shows.

        Raises:
            NotFoundError: as :meth:`inputs`.
            OptionError: the prefix does not begin a name.
        """
        target = sys._getframe(1).f_globals if namespace is None else namespace
        values = self.values
        found: dict[str, Any] = {"inputs": values.inputs} if values.function is not None else {}
        if not values.hidden:
            found["output"] = values.output
        if values.function is not None:
            found["function"] = values.function
        bound = bind(target, self.name, found, prefix)
        return replace(bound, lines=tuple(self._lines(bound)))

    def _lines(self, bound: Bound) -> list[str]:
        names = bound.names
        if "function" not in names:
            return [names["output"]]
        call = f"{names['function']}(**{names['inputs']})"
        if "output" not in names:
            return [call]
        if self.values.kernel:
            return [f"{call}[{self.name!r}]"]
        if isinstance(self.values.output, torch.Tensor):
            return [f"torch.equal({call}, {names['output']})"]
        return [call]

    def __repr__(self) -> str:
        where = f"{self.stage} {self.compile_id}" + (f" on {self.candidate}" if self.candidate else "")
        lines = [" · ".join(filter(None, [f"{self.name}: {plain(self.op)}", where, plain(self.module_path)]))]
        if self.source is not None:
            lines.append(f"  {plain(str(self.source))}: {plain(self.source.text.strip())}")
        if self._values is None:
            made = ", ".join(map(str, self.record.outputs))
            lines.append(f"  makes {made or 'no tensor'}; .inputs(), .run() and .as_function() run the call again")
            return "\n".join(lines)
        lines += [f"  {name}: {described(value)}" for name, value in self._values.inputs.items()]
        lines += [f"  → {name}: {described(value)}" for name, value in self._values.outputs.items()]
        lines += [f"  {text}" for text in (self._values.hidden, self._values.note) if text]
        return "\n".join(lines)


def described(value: Any) -> str:
    """A value in a few words: for a tensor its dtype, shape and strides."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} stride {tuple(value.stride())}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__} of {len(value)}: {'; '.join(described(each) for each in value[:4])}"
    return clip(repr(value), 60)


def node_handle(
    captures: Sequence[CompileCapture],
    calls: Callable[[], Sequence[ModelCall]],
    name: str,
    stage: str = "",
    compile_id: str = "",
    *,
    candidate: Any = None,
    gradients: Sequence[torch.Tensor] | None = None,
    traces: TracedCalls | None = None,
) -> NodeHandle:
    """A handle on a captured node. See :meth:`DebugSession.node` for the arguments.

    ``calls`` returns the kept calls; ``traces`` keeps traced calls from one handle to the next.

    Raises:
        NotFoundError: there is no such node.
        UsageError: there is no such stage or candidate.
    """
    backend = Backend(EAGER) if candidate is None else resolve_backend(candidate, "candidate")
    if backend.recording is not None:
        raise OptionError(f"candidate={candidate!r}; allowed: a backend that runs here, not a recording")
    fused = backend.name == INDUCTOR and backend.compiler is not None
    captured = find_node(captures, name, stage, compile_id, to_run=not fused)

    def fetch() -> NodeValues:
        kept = calls()
        if fused:
            return kernel_values(kept, captured, gradients)
        is_candidate = backend.compiler is not None
        collector = InParts(backend) if is_candidate else eager_mode
        again = Reexecution(kept, gradients, collector, afterwards=is_candidate, traces=traces)
        return again.values(captured)

    return NodeHandle(captured, fetch, "" if backend.compiler is None else backend.name)
