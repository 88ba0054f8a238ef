"""``inductor-debug compare``: files and ids, gates with their exit codes, and every format."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from inductor_debug_jupyter.cli.main import main
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphBreak,
    GraphRecord,
    NodeRecord,
    SessionRecord,
    SourceLine,
    dump_session,
)
from inductor_debug_jupyter.pipeline.store import ArtifactStore


@pytest.fixture
def runs(tmp_path):
    nodes = (
        NodeRecord("x", "placeholder", "x"),
        NodeRecord("sin", "call_function", "aten.sin.default", ("x",)),
        NodeRecord("output", "output", "output", ("sin",)),
    )
    graphs = {stage: GraphRecord(stage, nodes) for stage in ("forward", "post_grad")}
    capture = CompileCapture("0/0", "Net.forward", graphs=graphs)
    before = SessionRecord("run-1", "now", "Net", "default", False, "2.13", "0.1", captures=(capture,))
    line = SourceLine("model.py", 4, "print(x)", "forward")
    after = replace(before, id="run-2", graph_breaks=(GraphBreak("0/0", "print", line),))
    for record in (before, after):
        (tmp_path / f"{record.id}.json").write_bytes(dump_session(record))
        ArtifactStore(tmp_path / "art").save_session(record)
    return [str(tmp_path / "run-1.json"), str(tmp_path / "run-2.json")]


def test_files_and_ids_and_a_gate(runs, tmp_path, capsys):
    assert main(["compare", *runs]) == 0
    by_file = capsys.readouterr().out
    assert "✗ new-break: print\n    model.py, line 4: print(x)" in by_file
    assert main(["compare", "run-1", "last", "--artifacts", str(tmp_path / "art")]) == 0
    assert capsys.readouterr().out == by_file
    assert main(["compare", *runs, "--fail-on", "new-break"]) == 1
    assert "Failed:\n  new-break: new-break at model.py, line 4: print" in capsys.readouterr().out
    assert main(["compare", runs[0], runs[0], "--fail-on", "new-break,graphs+0%"]) == 0
    assert "nothing changed in what could be compared" in capsys.readouterr().out
    assert main(["compare", *runs, "--fail-on", "kernels+10%"]) == 1
    assert "kernels+10%: not known: kernels not known → not known" in capsys.readouterr().out


def test_more_than_two_are_a_table(runs, capsys):
    assert main(["compare", *runs, runs[0]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("run-")] == ["run-1", "run-2", "run-1"]
    assert main(["compare", *runs, runs[0], "--format", "json"]) == 0
    assert [each["breaks"] for each in json.loads(capsys.readouterr().out)] == [0, 1, 0]
    assert main(["compare", *runs, runs[0], "--fail-on", "any"]) == 2


def test_two_stages_as_a_page(runs, tmp_path):
    path = tmp_path / "stages.html"
    assert main(["compare", runs[0], "--stages", "forward,post_grad", "--format", "html", "--output", str(path)]) == 0
    assert "data-pairs" in path.read_text()


def test_every_format(runs, tmp_path, capsys):
    read = {}
    for form in ("json", "html", "junit", "sarif"):
        path = tmp_path / f"out.{form}"
        assert main(["compare", *runs, "--format", form, "--output", str(path), "--fail-on", "new-break"]) == 1
        read[form] = path.read_text()
    assert json.loads(read["json"])["changes"][0]["kind"] == "new-break"
    assert "<h1>1 change: 1 worse</h1>" in read["html"]
    assert "1 gate failed" in read["html"]
    assert ElementTree.fromstring(read["junit"]).get("failures") == "1"
    assert json.loads(read["sarif"])["runs"][0]["results"][0]["level"] == "error"


def test_two_stages(runs, capsys):
    assert main(["compare", runs[0], "--stages", "forward,post_grad"]) == 0
    assert capsys.readouterr().out == "Net.forward forward → post_grad: 3 same\n"
    assert main(["compare", runs[0], "--stages", "forward,post_grad", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["same"] == 3


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["{0}"], 2, "compare takes two runs, not 1"),
        (["{0}", "{1}", "--fail-on", "new-brek"], 2, "did you mean new-break?"),
        (["{0}", "{1}", "--stages", "forward,joint"], 2, "one run"),
        (["{0}", "--stages", "forward,joint"], 3, "no graph of stage 'joint'"),
        (["{0}", "missing.json"], 4, "cannot read missing.json"),
        (["{0}", "nothing-of-that-name"], 3, "nothing was captured"),
    ],
)
def test_bad_input_is_one_line(runs, tmp_path, capsys, arguments, code, told):
    given = [text.format(*runs) for text in arguments]
    assert main(["compare", *given, "--artifacts", str(tmp_path / "none")]) == code
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_history_shows_the_figures_of_a_model_over_time(runs, tmp_path, capsys):
    folder = ["--artifacts", str(tmp_path / "art")]
    assert main(["history", "net", "--format", "json", *folder]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["session"], row["breaks"], row["kernels"]) for row in rows] == [("run-1", 0, None), ("run-2", 1, None)]
    assert main(["history", "NET", "--limit", "1", *folder]) == 0
    table = capsys.readouterr().out
    assert "run-2" in table
    assert "run-1" not in table
    assert "not known" in table
    (path,) = (tmp_path / "art" / "sessions").glob("run-1*")
    path.write_text("{}")
    assert main(["history", "net", *folder]) == 0
    assert "left out: run-1" in capsys.readouterr().out
    assert main(["history", "other", *folder]) == 3
    assert "no session" in capsys.readouterr().err
