"""The report as data: the documented keys, and nothing passes that was not compared."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from inductor_debug_jupyter.pipeline.records import DiffRecord
from inductor_debug_jupyter.pipeline.reports import json_report
from inductor_debug_jupyter.pipeline.reports.json_report import report_schema
from inductor_debug_jupyter.pipeline.store import ArtifactStore, load_benchmarks, save_benchmark

from .conftest import EVIL, benchmark, hostile_session, plain_session

KEYS = {
    *("model", "timestamp", "summary", "guards", "constraints", "kernel_diff", "artifacts", "localization", "bisect"),
    *(
        "error_budget",
        "kernel_times",
        "prescription",
        "coverage",
        "memory",
        "breaks",
        "recompiles",
        "timings",
        "environment",
        "repros",
    ),
}


def test_one_session_has_exactly_the_documented_keys(store: ArtifactStore) -> None:
    store.save_session(hostile_session())
    report = json.loads(json.dumps(json_report(store)))
    assert set(report) == KEYS | {"schema_version"}
    assert report["schema_version"] == 1
    assert report["model"] == EVIL
    assert report["timestamp"] == "2026-01-02T03:04:05+00:00"
    assert report["summary"] == {
        "total_graphs": 1,
        "graph_breaks": 1,
        "constraint_violations": 2,
        "kernel_diff_passed": False,
    }
    assert report["guards"][0]["kind"] == EVIL
    assert report["constraints"][0]["places"][0]["source"]["line"] == 7
    assert report["kernel_diff"]["outputs"][0]["max_absolute_error"] == 1.0
    assert {artifact["room"] for artifact in report["artifacts"]} >= {"sessions", "aot_graphs", "statistics"}
    assert all((store.folder / artifact["path"]).is_file() for artifact in report["artifacts"])


def test_several_sessions_the_last_on_top(full_store: ArtifactStore) -> None:
    report = json_report(full_store)
    assert set(report) == KEYS | {"schema_version", "sessions", "benchmarks"}
    assert [one["id"] for one in report["sessions"]] == ["s-evil", "s-plain"]
    assert {key: report[key] for key in KEYS} == {key: report["sessions"][0][key] for key in KEYS}
    assert [one["speedup"] for one in report["benchmarks"]] == [3.0, 2.0]
    assert set(json_report(full_store, ["last"])) == KEYS | {"schema_version", "benchmarks"}


def test_reports_are_as_the_schema_says(full_store: ArtifactStore) -> None:
    schema = json.loads(json.dumps(report_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema).validate
    report = json.loads(json.dumps(json_report(full_store)))
    check(report)
    check(json.loads(json.dumps(json_report(full_store, ["s-plain"]))))
    assert set(report) <= set(schema["properties"])
    for damage in ({"schema_version": 2}, {"guards": {}}, {"model": 3}):
        with pytest.raises(jsonschema.ValidationError):
            check({**report, **damage})


def test_what_was_not_compared_is_null(store: ArtifactStore) -> None:
    store.save_session(plain_session("one"))
    report = json_report(store)
    assert report["kernel_diff"] is None
    assert report["summary"]["kernel_diff_passed"] is None
    store.save_session(replace(plain_session("two"), diff=DiffRecord("m", "eager", "inductor", "not_compared")))
    assert json_report(store)["summary"]["kernel_diff_passed"] is None
    store.save_session(replace(plain_session("three"), diff=DiffRecord("m", "eager", "inductor", "rounding")))
    assert json_report(store)["summary"]["kernel_diff_passed"] is True


def test_benchmarks_come_back_as_they_were(store: ArtifactStore) -> None:
    record = benchmark("name/with ../odd parts", session_id="s")
    save_benchmark(store, record)
    assert load_benchmarks(store) == ((record,), ())
    (artifact,) = store.artifacts(room="benchmarks")
    (store.folder / artifact.path).write_text("{}")
    records, (problem,) = load_benchmarks(store)
    assert records == ()
    assert "was changed" in problem
    store.write("benchmarks", "newer.json", '{"schema_version": 99}', "s")
    store.write("benchmarks", "list.json", "[]", "s")
    store.write("benchmarks", "short.json", '{"schema_version": 1, "benchmark": {"model": "x"}}', "s")
    records, problems = load_benchmarks(store)
    assert records == ()
    assert len(problems) == 4
    assert json_report_problems(store) == 4


def json_report_problems(store: ArtifactStore) -> int:
    store.save_session(plain_session("s"))
    return len(json_report(store)["problems"])
