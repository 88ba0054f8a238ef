"""Two runs: what was planted is found, and nothing else; the same program twice is nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import msgspec
import pytest
import torch

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.comparing import compare_runs, compare_stages
from inductor_debug_jupyter.pipeline.comparing.ci_formats import junit, sarif
from inductor_debug_jupyter.pipeline.comparing.gates import check, read_gates
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError
from inductor_debug_jupyter.pipeline.records import EnvironmentRecord, Guard, Recompile, dump_session, load_session

from .conftest import run_of

KINDS = {"break": "new-break", "fallback": "new-fallback", "split": "kernel-split", "error": "error-grew"}


def kinds(comparison):
    return [change.kind for change in comparison.changes]


def test_the_four_planted_faults_and_nothing_else(runs):
    first, _, faulty = runs
    comparison = first.compare(faulty)
    assert sorted(kinds(comparison)) == sorted(KINDS.values()), str(comparison)
    told = {change.kind: change for change in comparison.changes}
    assert "graph_break" in told["new-break"].source.text
    assert told["new-fallback"].title.startswith("linalg_inv_ex:")
    assert "linalg.inv" in told["new-fallback"].source.text
    assert "mismatch" in told["error-grew"].title
    assert comparison.quantity("breaks").after == 1
    assert comparison.unknown == ()


@pytest.mark.every(2)
@pytest.mark.parametrize("fault", KINDS)
def test_one_planted_fault_is_one_change(runs, tmp_path, fault):
    assert kinds(runs[0].compare(run_of(tmp_path, fault))) == [KINDS[fault]]


def test_the_way_back_is_better(runs):
    first, _, faulty = runs
    assert sorted(kinds(faulty.compare(first))) == ["break-gone", "error-shrank", "fallback-gone", "kernels-merged"]


def test_the_same_program_twice_is_nothing(runs, tmp_path):
    first, second, _ = runs
    comparison = first.compare(second)
    assert comparison.changes == ()
    assert comparison.environment == ()
    assert all(not graph.nodes for graph in comparison.graphs)
    assert {graph.stage for graph in comparison.graphs} >= {"dynamo", "forward", "post_grad"}
    assert "nothing changed\n" in str(comparison)
    second.save(tmp_path / "second.json")
    assert first.compare(tmp_path / "second.json") == comparison


def test_a_training_step_twice_is_nothing_and_with_another_batch_one_edit(tmp_path):
    def step(batch):
        torch._dynamo.reset()
        torch.manual_seed(0)
        blocks = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)]
        model = torch.compile(torch.nn.Sequential(*blocks))
        with capture(artifacts=str(tmp_path)) as session:
            model(torch.randn(batch, 64)).sum().backward()
        return session

    first = step(8)
    assert first.compare(step(8)).changes == ()
    (change,) = first.compare(step(32)).changes
    assert change.kind == "nodes-changed"
    assert "float32[8, 64] → float32[32, 64]" in change.title
    assert "memory-grew" in [each.kind for each in change.consequences]


def test_a_break_inside_a_module_leaves_the_nodes_the_same(tmp_path):
    class Inner(torch.nn.Module):
        def __init__(self, breaks):
            super().__init__()
            self.breaks = breaks

        def forward(self, x):
            y = x.sin()
            if self.breaks:
                torch._dynamo.graph_break()
            return y.cos()

    def run(breaks):
        torch._dynamo.reset()
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), Inner(breaks), torch.nn.Linear(8, 8)).eval()
        with capture(artifacts=str(tmp_path), lower="aot") as session, torch.no_grad():
            torch.compile(model, backend="aot_eager")(torch.ones(2, 8))
        return session

    comparison = run(False).compare(run(True))
    assert kinds(comparison) == ["new-break"]
    dynamo = next(graph for graph in comparison.graphs if graph.stage == "dynamo")
    assert [(node.status, node.op) for node in dynamo.nodes] == [("gone", "torch.linear")] * 2  # Dynamo left them out


def test_recompiles_guards_and_findings(runs):
    record = runs[0].record
    guard = Guard("0/0", "EQUALS_MATCH", "L['n']", ("L['n'] == 3",))
    again = Recompile("0/1", ("L['n'] == 3",), expression="L['n']", check="L['n'] == 3")
    comparison = compare_runs(record, replace(record, guards=(*record.guards, guard), recompiles=(again,)))
    assert kinds(comparison) == ["new-recompile", "new-guard"]
    faulty = runs[2].record
    without = replace(faulty, findings=faulty.findings[1:])
    assert kinds(compare_runs(without, faulty)) == ["new-finding"]


def test_rounding_is_no_change_and_a_larger_mistake_is(runs):
    record = runs[2].record
    output = next(each for each in record.diff.outputs if each.verdict == "mismatch")

    def with_error(verdict, error):
        only = replace(output, verdict=verdict, max_absolute_error=error)
        return replace(record, diff=replace(record.diff, outputs=(only,), verdict=verdict))

    assert not compare_runs(with_error("match", 0.0), with_error("rounding", 1e-6)).changes
    assert not compare_runs(with_error("mismatch", 0.2), with_error("mismatch", 0.3)).changes
    assert kinds(compare_runs(with_error("mismatch", 0.2), with_error("mismatch", 0.5))) == ["error-grew"]
    assert kinds(compare_runs(with_error("mismatch", 0.2), with_error("mismatch", None))) == ["error-grew"]


def test_circumstances_and_what_is_not_known(runs):
    record = runs[0].record
    other = replace(record, environment=replace(record.environment, python="CPython 3.12"), diff=None)
    comparison = compare_runs(record, other)
    assert comparison.environment == (("python", record.environment.python, "CPython 3.12"),)
    assert comparison.unknown == ("numbers: nothing was compared after",)
    assert "nothing changed in what could be compared" in str(comparison)
    bare = compare_runs(replace(record, captures=(), environment=None), record)
    assert "before: nothing was captured" in bare.unknown
    assert "environment: not recorded before" in bare.unknown


def test_a_gate_fails_on_what_happened_and_on_what_is_not_known(runs):
    first, second, faulty = runs
    every = read_gates("new-break, new-fallback,error-grew,kernels+10%,graphs+50%,any")
    failed = [result.gate.text for result in check(first.compare(faulty), every) if result.failures]
    assert failed == ["new-break", "new-fallback", "error-grew", "kernels+10%", "any"]
    assert not any(result.failures for result in check(first.compare(second), every))
    blind = replace(second.record, coverage=None, diff=None, captures=tuple(
        replace(capture, kernels=()) for capture in second.captures
    ))  # fmt: skip
    results = check(compare_runs(first.record, blind), read_gates("new-fallback,error-grew,kernels+10%,kernel-split"))
    assert all("not known" in result.failures[0] for result in results)
    for bad in ("new-brek", "kernels+x%", "kernels"):
        with pytest.raises(OptionError, match="is not allowed"):
            read_gates(bad)


def test_json_junit_and_sarif(runs):
    first, _, faulty = runs
    comparison = first.compare(faulty)
    data = json.loads(json.dumps(comparison.to_dict()))
    assert data["schema_version"] == 1
    assert sorted(change["kind"] for change in data["changes"]) == sorted(KINDS.values())
    assert msgspec.convert(data, type(comparison)) == comparison
    results = check(comparison, read_gates("new-break,new-recompile,kernels+10%"))
    suite = ElementTree.fromstring(junit(comparison, results))
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None] == [
        "new-break",
        "kernels+10%",
    ]
    assert {each.get("name"): each.get("value") for each in suite.iter("property")}["breaks.after"] == "1"
    (run,) = sarif(comparison, results)["runs"]
    (error,) = [each for each in run["results"] if each["ruleId"] == "new-break"]
    assert error["level"] == "error"
    assert error["locations"][0]["physicalLocation"]["region"]["startLine"] > 1
    assert {each["ruleId"] for each in run["results"]} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]} | {
        "kernels+10%"
    }


def test_two_stages_of_one_capture(runs):
    session = runs[0]
    joint = session.compare_stages("forward", "forward", "2/0")
    assert joint.nodes == ()
    lowered = session.compare_stages("dynamo", "forward")
    changed = {node.before: node.what for node in lowered.nodes}
    assert changed["linear"] == "became aten.permute.default, aten.addmm.default"
    assert "same" in str(lowered)
    with pytest.raises(NotFoundError, match="no graph of stage 'backward'"):
        session.compare_stages("forward", "backward")
    with pytest.raises(NotFoundError, match="no compile '9/9'"):
        compare_stages(session.captures, "forward", "post_grad", "9/9")


def test_a_node_that_leaves_the_target_has_moved(runs):
    record = runs[0].record

    def on(side):
        coverage = record.coverage
        graph, *others = coverage.graphs
        segments = tuple(replace(segment, side=side) for segment in graph.segments)
        return replace(record, coverage=replace(coverage, graphs=(replace(graph, segments=segments), *others)))

    comparison = compare_runs(on("device"), on("cpu"))
    assert kinds(comparison) == ["moved"]
    assert "device → cpu" in comparison.changes[0].title
    assert {node.status for graph in comparison.graphs for node in graph.nodes} == {"moved"}


def test_files_of_earlier_releases_are_compared(runs):
    old = load_session(dump_session(replace(runs[0].record, environment=None)))
    assert DebugSession.of_record(old).compare(runs[1]).changes == ()
    assert EnvironmentRecord() != runs[0].record.environment


def test_a_session_writes_a_report_about_itself(runs, tmp_path):
    faulty = runs[2]
    page = faulty.report(tmp_path / "out.html").read_text()
    assert faulty.id in page
    assert runs[0].id not in page
    assert "linalg_inv_ex" in page
    data = json.loads(faulty.report(tmp_path / "out.json").read_text())
    assert data["coverage"]["target"] == "stick128"
    assert data["environment"]["torch_build"]
