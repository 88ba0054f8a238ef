"""The JSON Schema is that of the records, and sessions of every older version still load."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from inductor_debug_jupyter.pipeline.errors import RecordError
from inductor_debug_jupyter.pipeline.records import SCHEMA_VERSION, dump_session, load_session
from inductor_debug_jupyter.pipeline.records.schema import session_schema
from inductor_debug_jupyter.pipeline.views.text import session_text

RECORDED = Path(__file__).parent / "recorded"


def recorded(version: int) -> bytes:
    """A session as an early release with that schema version wrote it; see record_session.py."""
    path = RECORDED / f"session_v{version}.json.gz"
    assert path.is_file(), f"no session of version {version} was recorded before the version was raised"
    return gzip.decompress(path.read_bytes())


@pytest.fixture(scope="module")
def check() -> Callable[[Any], None]:
    schema = json.loads(json.dumps(session_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).validate


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    """A real session, with everything a record can hold but a bisect, as this release saves it."""
    data: dict[str, Any] = json.loads(dump_session(load_session(recorded(1))))
    return data


def test_every_part_of_a_session_is_described() -> None:
    schema = session_schema()
    assert schema["properties"]["schema_version"] == {"const": SCHEMA_VERSION}
    assert {"SessionRecord", "CompileCapture", "NodeRecord", "KernelRecord", "Violation", "Guard"} <= set(
        schema["$defs"]
    )
    assert all(component["description"].strip() for component in schema["$defs"].values())
    assert "#/$defs/SessionRecord" in json.dumps(schema["properties"]["session"])


def test_a_saved_session_is_valid(check: Callable[[Any], None], saved: dict[str, Any]) -> None:
    check(saved)


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (lambda data: data.pop("session"), []),
        (lambda data: data.update(schema_version=SCHEMA_VERSION + 1), ["schema_version"]),
        (lambda data: data["session"].pop("id"), ["session"]),
        (lambda data: data["session"].update(captures={}), ["session", "captures"]),
        (
            lambda data: data["session"]["captures"][0]["graphs"]["forward"]["nodes"][0].update(name=3),
            ["session", "captures", 0, "graphs", "forward", "nodes", 0, "name"],
        ),
        (
            lambda data: data["session"]["findings"][0].update(severity="terrible"),
            ["session", "findings", 0, "severity"],
        ),
        (lambda data: data["session"]["guards"].append(None), ["session", "guards", 83]),
    ],
)
def test_a_damaged_session_is_not(
    check: Callable[[Any], None], saved: dict[str, Any], damage: Callable[[Any], Any], where: list[Any]
) -> None:
    data = copy.deepcopy(saved)
    damage(data)
    with pytest.raises(jsonschema.ValidationError) as caught:
        check(data)
    assert list(caught.value.absolute_path) == where
    with pytest.raises(RecordError):
        load_session(json.dumps(data).encode())


def test_a_session_that_is_captured_now_is_valid(check: Callable[[Any], None], tmp_path: Path) -> None:
    import torch

    from inductor_debug_jupyter import capture

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with capture(eager=True, lower="aot", artifacts=str(tmp_path / "a"), keep_inputs=True) as session:
        model(torch.randn(2, 4)).sum().backward()
    session.diff(candidate="aot_eager")
    data = json.loads(session.save(tmp_path / "session.json").read_bytes())
    assert data["session"]["captures"][0]["graphs"]["backward"]
    check(data)


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
def test_sessions_of_every_version_load(version: int) -> None:
    session = load_session(recorded(version))
    assert load_session(dump_session(session)) == session
    assert len(session.captures) == 4
    assert all(capture.kernels and capture.graph("backward") for capture in session.captures)
    assert [len(session.findings), len(session.graph_breaks), len(session.recompiles)] == [2, 1, 2]
    node = session.captures[0].graphs["forward"].by_name["addmm"]
    assert (node.shape, node.module_path, str(node.source)) == ((4, 6), "up", "small.py, line 10")
    text = session_text(session)
    assert "6 is not a multiple of 64" in text
    assert "tensor 'x' size mismatch at index 0" in text
