"""A folder with captured sessions, and a way to call the command line in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from inductor_debug_jupyter.cli.main import main
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    NodeRecord,
    Place,
    SessionRecord,
    TensorSpec,
    Violation,
)
from inductor_debug_jupyter.pipeline.store import ArtifactStore


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


Cli = Callable[..., Result]


def make_session(session_id: str, name: str = "In [4]") -> SessionRecord:
    spec = TensorSpec((4, 30), "float32", (30, 1), itemsize=4)
    nodes = (
        NodeRecord("x", "placeholder", "x", outputs=(spec,)),
        NodeRecord("relu", "call_function", "torch.relu", ("x",), (spec,)),
        NodeRecord("output", "output", "output", ("relu",)),
    )
    capture = CompileCapture(
        "0/0", graphs={"dynamo": GraphRecord("dynamo", nodes)}, texts={"dynamo": f"graph of {session_id}"}
    )
    finding = Violation(
        "align.innermost", "error", "30 is not a multiple of 64", (Place("0/0", "dynamo", "relu"),), "30", "64"
    )
    return SessionRecord(
        id=session_id,
        created="2026-01-02T03:04:05+00:00",
        name=name,
        target="default",
        strict=False,
        torch_version="2.13.0",
        tool_version="0.1.0",
        captures=(capture,),
        findings=(finding,),
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INDUCTOR_DEBUG_ARTIFACTS", raising=False)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> ArtifactStore:
    """Two sessions in the default folder."""
    store = ArtifactStore(folder / "debug_artifacts")
    store.save_session(make_session("first-1"))
    store.save_session(make_session("second-2"))
    return store


@pytest.fixture
def cli(folder: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = main(arguments)
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def save(folder: Path) -> Callable[[str, str], None]:
    def one(session_id: str, name: str) -> None:
        ArtifactStore(folder / "debug_artifacts").save_session(make_session(session_id, name))

    return one
