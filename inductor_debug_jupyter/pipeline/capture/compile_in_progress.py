"""One compile while it is being captured: collects what the hooks report, and freezes it into a record.

Inductor's output code is parsed into one record for each kernel, with its own source.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.capture.sources import Callers, running_lines
from inductor_debug_jupyter.pipeline.capture.structured_trace import CompileTrace
from inductor_debug_jupyter.pipeline.records import (
    BACKWARD,
    CompileCapture,
    DeferredTexts,
    EagerRun,
    GraphRecord,
    KernelRecord,
    Rest,
    SourceLine,
)
from inductor_debug_jupyter.pipeline.torch_compat import graphs as torch_graphs
from inductor_debug_jupyter.pipeline.torch_compat.aten_ops import DynamoCalls
from inductor_debug_jupyter.pipeline.torch_compat.eager_memory import EagerProgram
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction
from inductor_debug_jupyter.pipeline.torch_compat.open_sizes import SizesSeen

KernelCall = tuple[str, tuple[str, ...]]
"""A kernel's name, and the post-grad nodes that this call of it computes."""

_FROM_CACHE = (
    "taken from torch's cache, which keeps {kept}; capture(fresh=True) compiles again and sees {stage} as it is made"
)

_STAGES_OF_PART = {
    "aot": ("joint", "forward", "backward"),
    "post_grad": ("post_grad",),
    "ir": ("ir_pre_fusion", "ir_post_fusion"),
    "code": ("code", "kernel"),
}
"""Part of the capture → the stages that are missing when it failed."""

NOT_MADE_YET = "not made: nobody had read session.captures by then; --lower inductor makes it at once"

_IN_TRACE = ("dynamo", "joint", "forward", "backward")
"""Stages whose text torch writes into its trace anyway."""


class CompileInProgress:
    """Everything reported of one compile id.

    Args:
        compile_id: torch's own.
        name: the compiled function, as the user names it.
        source: the line where it is defined.
        fresh: whether torch's caches are bypassed.
        callers: the user's running lines, where they are not on the stack.
    """

    def __init__(
        self,
        compile_id: str,
        name: str = "graph",
        source: SourceLine | None = None,
        *,
        fresh: bool = True,
        callers: Callers | None = None,
    ) -> None:
        self.compile_id = compile_id
        self.name = name
        self.source = source
        self.fresh = fresh
        self.trace = CompileTrace()
        self.roles: list[tuple[str, str]] = []
        self.missing: dict[str, str] = {}
        self.call = 0
        self.function: CalledFunction | None = None
        """The function whose call made torch compile."""
        self.used: set[int] = set()
        """Results of the Dynamo graph, by position, from which a backward came."""
        self.sizes: SizesSeen | None = None
        """The values of the graph's open sizes in all calls, where they are noted."""
        self.opaque: tuple[str, ...] = ()
        """The user's own functions that are nodes of the Dynamo graph."""
        self.outermost = ""
        """The outermost function that the user called then."""
        self.callers = callers or running_lines()
        self._origins: dict[int, tuple[str, ...]] = {}
        self._graphs: dict[str, GraphRecord] = {}
        self._dynamo_calls: DynamoCalls | None = None
        self._program: EagerProgram | None = None
        self._eager: EagerRun | None = None
        self._texts: dict[str, str | Callable[[], str]] = {}
        self._code: dict[str, tuple[str, Sequence[KernelCall]]] = {}
        self._kernels: dict[str, tuple[KernelRecord, ...]] = {}
        self._calls: dict[str, list[KernelCall]] = {}
        self._late: DeferredTexts | None = None
        self._rest: Rest | None = None

    @property
    def is_lowered(self) -> bool:
        """Whether AOTAutograd has traced the graph, with all that its nodes call."""
        return "forward" in self._graphs

    def suspend(self, rest: Rest | None) -> None:
        """From now on ``rest`` makes Inductor's stages, or nothing is left to be made."""
        self._rest, self._late = rest, None

    def undo_later(self) -> Callable[[], None]:
        """A function that takes back what is added from now on; the graphs and texts that are there stay."""
        kept: tuple[dict[str, Any], ...] = (
            self._graphs, self._texts, self._code, self._kernels, self._calls, self.missing,
        )  # fmt: skip
        before = [(each, dict(each)) for each in kept]
        undo_trace = self.trace.undo_later()

        def undo() -> None:
            undo_trace()
            for each, contents in before:
                each.clear()
                each.update(contents)
            self._late = None

        return undo

    def without_aten_ops(self) -> None:
        """Do not look up the aten ops of the Dynamo graph's nodes, which means running them on fake tensors."""
        self._dynamo_calls = None

    def add_graph(self, stage: str, graph_module: Any, is_backward: bool = False) -> None:
        """Copy a graph: torch goes on to change it. Its text is rendered on demand where the trace has none."""
        key = stage + BACKWARD if is_backward else stage
        if stage == "dynamo":
            self._dynamo_calls = DynamoCalls(graph_module)
            self._program = EagerProgram(graph_module)
        if stage == "joint" or (stage == "forward" and not self._origins):
            self._origins = torch_graphs.origins_by_sequence(graph_module)
        self._graphs[key] = graph_record(
            key, graph_module, callers=self.callers, roles=self.roles, origins=self._origins
        )
        if not (key in _IN_TRACE and self.trace.is_received):
            self._add_text(key, torch_graphs.deferred_graph_text(graph_module))

    def add_generated(self, stage: str, made: Any, is_backward: bool) -> None:
        """Keep what Inductor generates: IR, a kernel's name with the nodes of one call, or the wrapper code."""
        side = "backward" if is_backward else "forward"
        if stage == "kernel":
            self._calls.setdefault(side, []).append(made)
            return
        if stage == "ir_pre_fusion":  # code generation starts (again)
            self._calls.pop(side, None)
        if stage == "code":
            self._code[side] = (made, self._calls.get(side, ()))
            self._kernels.pop(side, None)
        self._add_text(stage + BACKWARD if is_backward else stage, made)

    def _add_text(self, key: str, text: str | Callable[[], str]) -> None:
        self._texts[key] = text
        self._late = None

    def freeze(self, failures: Mapping[str, str]) -> CompileCapture:
        """The record of what was added so far; texts stay handles until they are read. ``failures``: part → reason."""
        caches = dict(self.trace.caches)
        if self.fresh:
            caches = dict.fromkeys(("aot", "fx"), "bypassed")
        if self._dynamo_calls is not None and "forward" not in self._graphs:
            self._graphs["dynamo"] = _with_aten_ops(self._graphs["dynamo"], self._dynamo_calls.aten_ops())
            self._dynamo_calls = None
        if self._program is not None and "forward" in self._graphs:
            self._eager = self._program.run(self.used)
            self._program = None
        texts = self._frozen_texts()
        kernels = (*self._kernels_of("forward", "code"), *self._kernels_of("backward", f"code{BACKWARD}"))
        missing = self._missing(texts)
        for part, reason in failures.items():
            for stage in _STAGES_OF_PART.get(part, ()):
                if stage not in self._graphs and stage not in texts and not (stage == "kernel" and kernels):
                    missing.setdefault(stage, reason)
        return CompileCapture(
            compile_id=self.compile_id,
            name=self.name,
            source=self.source,
            graphs=dict(self._graphs),
            texts=texts,
            kernels=kernels,
            missing=missing,
            phases=tuple(sorted(self.trace.phases, key=lambda phase: (phase.start, phase.depth))),
            caches=caches,
            call=self.call,
            eager=self._eager,
            sizes=self.sizes.values if self.sizes is not None else (),
        )

    def _kernels_of(self, side: str, key: str) -> tuple[KernelRecord, ...]:
        """The kernels of one side, parsed at the first call; on a cache hit, from the code that torch replays."""
        if side not in self._kernels:
            code, calls = self._code.get(side, (self.trace.texts.get(key, ""), ()))
            if not code:
                return ()
            self._kernels[side] = _kernels_of(code, side, calls)
        return self._kernels[side]

    def _frozen_texts(self) -> DeferredTexts:
        """One object until a text is added, so that a text is rendered once."""
        traced = self.trace.texts
        wanted = {**traced, **self._texts, **{stage: traced[stage] for stage in _IN_TRACE if stage in traced}}
        if self._late is None or set(self._late) != set(wanted):
            self._late = DeferredTexts(wanted, self._rest)
        return self._late

    def _missing(self, texts: DeferredTexts) -> dict[str, str]:
        missing = self._failed(texts)
        if self._rest is not None:
            missing["code"] = NOT_MADE_YET
        if "hit" in self.trace.caches.values():
            for stage in ("joint", "forward", "backward", "post_grad"):
                if stage in texts and stage not in self._graphs:
                    missing.setdefault(stage, _FROM_CACHE.format(kept="its text but not its nodes", stage="it"))
            for stage in ("ir_pre_fusion", "ir_post_fusion"):
                missing.setdefault(stage, _FROM_CACHE.format(kept="no IR", stage="it"))
        if "forward" in self._graphs and "backward" not in self._graphs:
            missing.setdefault("backward", "nothing requires a gradient here, so there is no backward")
        if "backward" in self._graphs and "code" in texts and f"post_grad{BACKWARD}" not in texts:
            missing.setdefault(f"code{BACKWARD}", "torch compiles the backward when backward() first runs; it did not")
        return missing

    def _failed(self, texts: DeferredTexts) -> dict[str, str]:
        """The stages that failed; what failed may have come as far as the forward, or beyond it."""
        failed: dict[str, str] = {}
        for stage, reason in self.missing.items():
            sides = (stage, stage + BACKWARD) if "backward" in self._graphs else (stage,)
            absent = [side for side in sides if side not in self._graphs and side not in texts]
            failed |= dict.fromkeys(absent[:1], reason)
        return failed


def _with_aten_ops(record: GraphRecord, ops: Mapping[str, tuple[str, ...]]) -> GraphRecord:
    """A Dynamo graph's record with the aten ops that each node dispatches to (node name → ops)."""
    nodes = tuple(replace(node, aten_ops=ops[node.name]) if node.name in ops else node for node in record.nodes)
    return replace(record, nodes=nodes)


def _kernels_of(output_code: str, stage: str, calls: Iterable[KernelCall]) -> tuple[KernelRecord, ...]:
    """The kernels defined in a wrapper module, then the ones of libraries that it calls.

    Inductor assigns each kernel as ``name = async_compile.<language>(…, r'''source''', …)``: the longest string
    argument is the source. The module is parsed, never run. ``calls`` are the kernels as they are called, each with
    the nodes that the call computes.
    """
    called: dict[str, list[tuple[str, ...]]] = {}
    for name, nodes in calls:
        called.setdefault(name, []).append(nodes)
    kernels = [
        KernelRecord(name, code, language, stage, tuple(called.pop(name, ())))
        for name, code, language in _definitions(output_code)
    ]
    lines = output_code.splitlines() if called else []
    for name, nodes_of_calls in called.items():
        uses = "\n".join(line.strip() for line in lines if f"{name}(" in line)
        kernels.append(KernelRecord(name, uses, "extern", stage, tuple(nodes_of_calls)))
    return tuple(kernels)


def _definitions(output_code: str) -> Iterator[tuple[str, str, str]]:
    """Name, source and language of each kernel that the module defines."""
    for statement in ast.parse(output_code).body:
        if not isinstance(statement, ast.Assign) or not isinstance(call := statement.value, ast.Call):
            continue
        function = call.func
        if not (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "async_compile"
            and isinstance(name := statement.targets[0], ast.Name)
        ):
            continue
        texts = [
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        language = "cpp" if function.attr.startswith("cpp") else function.attr
        yield name.id, max(texts, key=len, default="").strip("\n"), language
