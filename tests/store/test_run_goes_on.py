"""When nothing can be saved, the user's run goes on, the capture stays in memory, and that is said once."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_faults import in_namespace

BODY = """
import logging, os, pathlib, sys
import torch
from inductor_debug_jupyter import ConstraintViolationError, DebugSession, capture, mock_backend

logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="WARNING %(message)s")
model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU())
x = torch.randn(4, 8)

def use(folder):
    torch._dynamo.reset()
    artifacts = str(folder / "debug_artifacts")
    print("-- capture")
    with capture(eager=True, lower="aot", artifacts=artifacts, target="stick128", keep_inputs=True) as session:
        answer = model(x)
    assert torch.equal(answer, model(x))
    assert session.captures[0].graph("forward").by_name["addmm"].shape == (4, 6)
    assert session.findings[0].rule_id == "align.innermost"
    session.diff(candidate="aot_eager")  # tries to save again
    print("note", [str(note) for note in session.notes if note.part == "artifacts"])

    print("-- strict")
    try:
        with capture(eager=True, lower="aot", artifacts=artifacts, target="stick128", strict=True):
            model(x)
    except ConstraintViolationError as error:
        print("refused", error.repro)

    print("-- backend")
    os.environ.update(INDUCTOR_DEBUG_ARTIFACTS=artifacts, MOCK_STRICT="0")
    for rows in (2, 3, 5):
        compiled = torch.compile(model, backend=mock_backend, dynamic=False)
        assert torch.equal(compiled(torch.ones(rows, 8)), model(torch.ones(rows, 8)))
    return session

shared = pathlib.Path(SHARED)
print("== full disk")
session = use(make_small_disk(str(shared / "full"), 60))
make_room(shared / "full")
session.diff(candidate="aot_eager")
assert ArtifactStore(shared / "full" / "debug_artifacts").load("last") == session.record, "saved when there is room"
assert not any(note.part == "artifacts" for note in session.notes)

print("== read-only folder")
make_read_only(shared / "read_only")
session = use(shared / "read_only")
session.save(shared / "elsewhere" / "session.json")
assert DebugSession.load(shared / "elsewhere" / "session.json").record == session.record
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """What was printed: fault → section → lines. One child for both, since torch takes its time to import."""
    import tempfile

    with tempfile.TemporaryDirectory() as shared:
        for name in ("", "full", "read_only", "elsewhere"):
            (Path(shared) / name).mkdir(exist_ok=True)
            (Path(shared) / name).chmod(0o777)
        out = in_namespace(f"SHARED = {shared!r}\n" + BODY, seconds=240)
    found: dict[str, dict[str, list[str]]] = {}
    for line in out.splitlines():
        if line.startswith("== "):
            sections = found[line[3:]] = {"how": (lines := [])}
        elif line.startswith("-- "):
            lines = sections[line[3:]] = []
        else:
            lines.append(line)
    return found


@pytest.mark.parametrize("fault", ["full disk", "read-only folder"])
def test_a_capture_that_cannot_be_saved(told: dict[str, dict[str, list[str]]], fault: str) -> None:
    out = told[fault]
    warning, note = out["capture"]
    assert warning.startswith("WARNING artifacts: nothing was saved: cannot "), out["how"]
    assert "debug_artifacts" in warning
    assert "The session is in memory; session.save(path) keeps it" in warning
    assert note == f"note {[warning.removeprefix('WARNING ')]}"
    assert [line.split(":")[0] for line in out["strict"]] == ["WARNING artifacts", "refused None"]
    said = [line for line in out["backend"] if "saved" in line or "written" in line]
    assert len(said) == 1, said
    assert said[0].startswith("WARNING nothing was saved: cannot ")
