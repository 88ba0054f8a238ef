"""Stores with hand-made sessions in which every name is hostile, and with benchmarks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.records import (
    BackendTiming,
    BenchmarkRecord,
    BisectRecord,
    CompileCapture,
    DiffRecord,
    GraphBreak,
    GraphRecord,
    Guard,
    Heatmap,
    KernelRecord,
    KernelSpec,
    NodeRecord,
    Note,
    OutputDiff,
    Place,
    Recompile,
    Rung,
    SessionRecord,
    SourceLine,
    TensorSpec,
    Transfer,
    Violation,
)
from inductor_debug_jupyter.pipeline.store import ArtifactStore, save_benchmark

EVIL = "<img src=x onerror=alert(1)>"
EVIL_CLOSER = "</pre></style></script><script>alert(2)</script>\"'"


def hostile_session(session_id: str = "s-evil") -> SessionRecord:
    """One with everything in it, all of it named as badly as can be."""
    line = SourceLine("/tmp/model.py", 7, f"    h = up(h)  # {EVIL}{EVIL_CLOSER}", EVIL, EVIL)
    spec = TensorSpec((4, 30), "float32", (30, 1), itemsize=4)
    nodes = (
        NodeRecord("x", "placeholder", EVIL, outputs=(spec,)),
        NodeRecord(EVIL, "call_function", EVIL_CLOSER, ("x",), (spec,), EVIL, EVIL, line, line),
        NodeRecord("output", "output", "output", (EVIL,)),
    )
    place = Place("0/0", "forward", EVIL, EVIL_CLOSER, EVIL, line, line)
    text = f"def forward(x):  # {EVIL}\n    return '{EVIL_CLOSER}'"
    heatmap = Heatmap(2, 3, (0.0, 1e-3, None, 1.0, 0.5, 0.0), 2, 3, EVIL)
    outputs = (
        OutputDiff(EVIL, "mismatch", EVIL_CLOSER, (2, 3), EVIL, max_absolute_error=1.0, heatmap=heatmap),
        OutputDiff("scalar", "not_compared", "shapes differ"),
    )
    diff = DiffRecord(EVIL, EVIL, EVIL_CLOSER, "mismatch", outputs, (EVIL,), ("/etc/passwd",))
    return SessionRecord(
        id=session_id,
        created="2026-01-02T03:04:05+00:00",
        name=EVIL,
        target=EVIL,
        strict=True,
        torch_version="2.13.0",
        tool_version="0.1.0",
        captures=(
            CompileCapture(
                "0/0",
                EVIL,
                line,
                {"forward": GraphRecord("forward", nodes)},
                {"forward": text, "ir_pre_fusion": EVIL_CLOSER},
                (KernelRecord(EVIL, f"// {EVIL_CLOSER}\nvoid f() {{}}"), KernelRecord("odd", EVIL, language=EVIL)),
                {"backward": EVIL},
            ),
        ),
        findings=(
            Violation("align.innermost", "error", EVIL, (place,), EVIL, EVIL_CLOSER, EVIL, (EVIL,), (EVIL,)),
            Violation("dtype.float64", "warning", "no float64", ()),
        ),
        graph_breaks=(GraphBreak("0/0", f"{EVIL}\nsecond line", line, (EVIL,)),),
        recompiles=(Recompile("0/1", (EVIL, "0/0: size changed"), line),),
        guards=(Guard("0/0", EVIL, f"L['{EVIL}']", (EVIL, EVIL_CLOSER, "a", "b"), line), Guard("0/0", "GRAD_MODE", "")),
        diff=diff,
        bisect=BisectRecord(EVIL, (Rung("eager", "good"), Rung(EVIL, "bad", EVIL)), EVIL, EVIL),
        notes=(Note(EVIL, EVIL_CLOSER),),
        sources={EVIL: EVIL},
        repros=(EVIL,),
        transfers=(
            Transfer("copy_to_device", EVIL, (65,), EVIL, (2, 64), EVIL, 256, 130, EVIL, "forward", "0/0", EVIL),
        ),
        kernel_specs=(KernelSpec(EVIL_CLOSER, EVIL, EVIL, "forward", "0/0", {EVIL: EVIL_CLOSER}),),
    )


def plain_session(session_id: str, name: str = "MLP") -> SessionRecord:
    """A small one without findings, nothing compared."""
    whole = hostile_session(session_id)
    capture = replace(
        whole.captures[0],
        name=name,
        source=None,
        graphs={"dynamo": GraphRecord("dynamo", (NodeRecord("relu", "call_function", "torch.relu"),))},
        texts={"dynamo": "graph of " + session_id},
        kernels=(),
        missing={},
    )
    return SessionRecord(
        session_id, "2026-01-03T00:00:00+00:00", name, "default", False, "2.13.0", "0.1.0", captures=(capture,)
    )


def benchmark(
    model: str = "bert", created: str = "2026-01-01", eager: float = 0.02, **changes: object
) -> BenchmarkRecord:
    timings = (
        BackendTiming("eager", 0.0, eager, 0.001, 5),
        BackendTiming("inductor", 30.0, 0.01, 0.002, 5),
        BackendTiming("mock_backend", 0.0, 0.0, 0.0, 0, error=f"ValueError: {EVIL}"),
    )
    record = BenchmarkRecord(
        model, EVIL, 178_000_000, created, "2.13.0", "cpu", timings, 1, 0, {"a.b": 3}, "rounding", 1e-6
    )
    return replace(record, **changes)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "debug_artifacts")


@pytest.fixture
def full_store(store: ArtifactStore) -> ArtifactStore:
    """A plain session, then the hostile one, and two benchmark results of one model."""
    store.save_session(plain_session("s-plain"))
    store.save_session(hostile_session())
    save_benchmark(store, benchmark(created="2026-01-01", eager=0.02, session_id="s-plain"))
    save_benchmark(store, benchmark(created="2026-01-02", eager=0.03, session_id="s-evil"))
    return store
