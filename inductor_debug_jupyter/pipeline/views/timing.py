"""Where the time of a call goes, as text and as what the Time tab shows."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import BACKWARD, KernelTime, ModuleTime, TimingRecord
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.views.labels import short_op
from inductor_debug_jupyter.pipeline.views.places import Lookup, code_text
from inductor_debug_jupyter.pipeline.views.view_types import Row, Selection
from inductor_debug_jupyter.pipeline.words import count, short_time, size

_SHOWN = 12
_KINDS = 4
_BAR = 20
_SLOWER = 1.2
"""A module that takes so much longer compiled is said to be slower."""
_LEAST = 0.02
"""Modules with less than this share of the call are not spoken of."""


def timing_text(record: TimingRecord) -> str:
    """The whole call, the slowest kernels with their lines, modules that the compiler made slower, and the roofs."""
    lines = [*timing_head(record), ""]
    shown = record.ranked[:_SHOWN]
    names = max((len(_name(kernel)) for kernel in shown), default=0)
    total = record.in_kernels or 1.0
    for kernel in shown:
        share = kernel.seconds / total
        bar = "█" * round(share * _BAR)
        words = (short_time(kernel.seconds), roof_words(kernel), work_words(kernel), _where(kernel))
        facts = " · ".join(filter(None, words))
        lines.append(f"{share:6.1%} {bar:<{_BAR}} {_name(kernel):<{names}}  {facts}")
    if len(record.kernels) > len(shown):
        rest = sum(kernel.seconds for kernel in record.ranked[_SHOWN:]) / total
        lines.append(f"{rest:6.1%} {'':<{_BAR}} {count(len(record.kernels) - len(shown), 'other call')} of kernels")
    slower = slower_modules(record)
    if slower:
        lines += ["", "slower compiled than eager:", *(f"  {module_words(each)}" for each in slower)]
    return "\n".join([*lines, *(plain(note) for note in record.notes)])


def timing_head(record: TimingRecord) -> list[str]:
    """The call compiled and eager, what of it is in kernels, and how many make most of it."""
    what = "call with its backward" if record.backward else "call"
    ratio = record.eager / record.seconds if record.seconds else 0.0
    faster = f"{ratio:.2f}× as fast as eager" if ratio >= 1 else f"{1 / ratio:.2f}× slower than eager" if ratio else ""
    both = f"{short_time(record.seconds)} compiled, {short_time(record.eager)} eager"
    first = f"{plain(record.model)}: one {what} takes {both}"
    inside = record.in_kernels / record.seconds if record.seconds else 0.0
    lines = [
        f"{first} ({faster}; medians of {count(record.runs, 'run')})",
        f"{inside:.0%} of it is in {count(len(record.kernels), 'call')} of kernels; {_most(record)}: {by_op(record)}",
    ]
    if record.roofs is not None:
        rate = record.roofs.matmul.get("float32", 0.0)
        threads = count(record.roofs.threads, "thread")
        lines.append(
            f"this machine, measured with {threads}: {record.roofs.memory / 1e9:.3g} GB/s, float32 products "
            f"{rate / 1e9:.3g} GFLOP/s; the measuring takes {record.overhead:.1%} of the call"
        )
    return lines


def _most(record: TimingRecord) -> str:
    total = 0.0
    for number, kernel in enumerate(record.ranked, 1):
        total += kernel.seconds
        if total >= 0.9 * record.in_kernels:
            return f"{number} of them make 90% of that"
    return "none of them takes any time"


def _name(kernel: KernelTime) -> str:
    return plain(kernel.kernel)


def work_words(kernel: KernelTime) -> str:
    """How much a kernel computes and moves in a second."""
    if kernel.flops is None or kernel.nbytes is None or not kernel.seconds:
        return ""
    rate = f"{kernel.flops / kernel.seconds / 1e9:.3g} GFLOP/s, " if kernel.bound == "compute" else ""
    return f"{rate}{kernel.nbytes / kernel.seconds / 1e9:.3g} GB/s of {size(kernel.nbytes)}"


def roof_words(kernel: KernelTime) -> str:
    """What a kernel reaches of the machine's own speed."""
    if kernel.roof is None:
        return ""
    if kernel.roof > 1:
        return "faster than the memory: from cache" if kernel.bound == "memory" else "at the roof of products"
    return f"{kernel.roof:.0%} of the {'memory' if kernel.bound == 'memory' else 'product'} roof"


def ops_words(kernel: KernelTime) -> str:
    """The ops of a kernel, in short."""
    return ", ".join(plain(short_op(op)) for op in kernel.ops)


def _where(kernel: KernelTime) -> str:
    parts = [plain(kernel.module_path), plain(str(kernel.source)) if kernel.source else ""]
    return " · ".join(filter(None, parts))


def slower_modules(record: TimingRecord) -> list[ModuleTime]:
    """The modules that take longer compiled than eager, longest first; of nested ones the innermost."""
    slow = [
        each
        for each in record.modules
        if each.path and each.compiled > _LEAST * record.seconds and each.ratio > _SLOWER
    ]
    inner = [each for each in slow if not any(other.path.startswith(f"{each.path}.") for other in slow)]
    return sorted(inner, key=lambda each: each.eager - each.compiled)


def module_words(module: ModuleTime) -> str:
    """A module with its seconds both ways."""
    return (
        f"{plain(module.path)} ({plain(module.kind)}): {short_time(module.eager)} eager, {short_time(module.compiled)} "
        f"compiled, {module.ratio:.1f}× as long"
    )


def by_op(record: TimingRecord) -> str:
    """The kinds of kernels that take most of the time, each with its share."""
    seconds: dict[str, float] = {}
    calls: dict[str, int] = {}
    for kernel in record.kernels:
        kind = _kind(kernel)
        seconds[kind] = seconds.get(kind, 0.0) + kernel.seconds
        calls[kind] = calls.get(kind, 0) + 1
    total = record.in_kernels or 1.0
    largest = sorted(seconds, key=lambda kind: -seconds[kind])[:_KINDS]
    return ", ".join(f"{kind} {seconds[kind] / total:.0%} (×{calls[kind]})" for kind in largest)


def _kind(kernel: KernelTime) -> str:
    """What a kernel is called when it is counted with others: a library's function, or fused ops."""
    if kernel.kernel.startswith(("cpp_", "triton_")):
        return "fused ops"
    if "scaled_dot_product" in kernel.kernel:
        return "attention, backward" if "backward" in kernel.kernel else "attention"
    name = kernel.kernel.removeprefix("torch.ops.").removeprefix("extern_kernels.").removesuffix(".default")
    return plain(short_op(name))


def time_view(record: TimingRecord, lookup: Lookup) -> Row:
    """The Time tab: what it says in short, a row for each call of a kernel, slowest first, modules, and the roofs.

    ``start`` and ``seconds`` place a row on the timeline, ``flops`` and ``nbytes`` on the roofline (None: not known).
    """
    total = record.in_kernels or 1.0
    largest = max((kernel.seconds for kernel in record.kernels), default=0.0) or 1.0
    rows = [
        Row(
            op=_name(kernel),
            share=f"{kernel.seconds / total:.1%}",
            bar=100 * kernel.seconds / largest,
            facts=" · ".join(filter(None, [short_time(kernel.seconds), roof_words(kernel), work_words(kernel)])),
            where=_where(kernel),
            code=code_text(kernel.source) or ops_words(kernel),
            selection=node_of_kernel(kernel, lookup),
            start=kernel.start,
            seconds=kernel.seconds,
            stage=kernel.stage,
            bound=kernel.bound,
            flops=kernel.flops,
            nbytes=kernel.nbytes,
        )
        for kernel in record.ranked
    ]
    roofs = record.roofs
    return Row(
        head=timing_head(record),
        rows=rows,
        modules=[
            Row(
                path=plain(each.path) or plain(record.model),
                kind=plain(each.kind),
                eager=short_time(each.eager),
                compiled=short_time(each.compiled),
                ratio=f"{each.ratio:.2f}×",
                is_slower=each.ratio > _SLOWER,
            )
            for each in record.modules
            if max(each.eager, each.compiled) > _LEAST * record.seconds
        ],
        roofs=None if roofs is None else Row(memory=roofs.memory, product=roofs.matmul.get("float32", 0.0)),
        total=record.seconds,
        notes=[plain(note) for note in record.notes],
    )


def node_of_kernel(kernel: KernelTime, lookup: Lookup) -> Selection | None:
    """The last node that a kernel computes, in the graph that Inductor lowers; None where that is not known."""
    stage = "post_grad" if kernel.stage == "forward" else f"post_grad{BACKWARD}"
    graph = lookup.graphs.get((kernel.compile_id, stage))
    nodes = [] if graph is None else [node for name in kernel.nodes if (node := graph.node(name)) is not None]
    return lookup.of_node(kernel.compile_id, stage, nodes[-1]) if nodes else None


def times_by_graph(record: TimingRecord | None, lookup: Lookup) -> dict[tuple[str, str], dict[str, float]]:
    """(compile id, stage) → node → the share of the call's kernels that its own kernel has."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for kernel in record.kernels if record else ():
        stage = "post_grad" if kernel.stage == "forward" else f"post_grad{BACKWARD}"
        if record is not None and (kernel.compile_id, stage) in lookup.graphs:
            shares = found.setdefault((kernel.compile_id, stage), {})
            shares |= dict.fromkeys(kernel.nodes, kernel.seconds / (record.in_kernels or 1.0))
    return found


written_by(TimingRecord, timing_text)
