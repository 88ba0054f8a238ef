"""Nested outputs: readable paths, structures that differ, values that are no tensors."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, compare_outputs, flatten_outputs, overall_verdict
from inductor_debug_jupyter.pipeline.records import OutputDiff

Point = namedtuple("Point", "x y")


@dataclass
class Answer:
    logits: torch.Tensor
    hidden: list[torch.Tensor]
    name: str = "answer"


class Opaque:
    """Has no == of its own and no tensors."""


class Cache:
    """Holds tensors, but is no container that anybody knows."""

    def __init__(self) -> None:
        self.keys = [torch.ones(2), torch.ones(3)]
        self.length = 2


class Fickle:
    """Cannot even be asked."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not ask")

    __hash__ = None  # type: ignore[assignment]


def verdicts(outputs: tuple[OutputDiff, ...]) -> dict[str, str]:
    return {output.path: output.verdict for output in outputs}


def test_paths_read_like_expressions() -> None:
    x = torch.ones(1)
    outputs = {
        "logits": x,
        "past_key_values": ((x, x), (x, x)),
        "point": Point(x, [x]),
        "not an identifier": x,
        "answer": Answer(x, [x, x]),
        "cache": Cache(),
        "nothing": None,
        "empty": (),
    }
    assert list(flatten_outputs(outputs)) == [
        "logits",
        "past_key_values[0][0]",
        "past_key_values[0][1]",
        "past_key_values[1][0]",
        "past_key_values[1][1]",
        "point.x",
        "point.y[0]",
        "['not an identifier']",
        "answer.logits",
        "answer.hidden[0]",
        "answer.hidden[1]",
        "answer.name",
        "cache.keys[0]",
        "cache.keys[1]",
        "nothing",
        "empty",
    ]
    assert list(flatten_outputs(x)) == ["output"]
    assert list(flatten_outputs([Answer(x, [])])) == ["[0].logits", "[0].hidden", "[0].name"]


def test_nothing_on_both_sides_is_left_out() -> None:
    found = compare_outputs({"a": None, "b": (), "c": {}, "d": 1}, {"a": None, "b": (), "c": {}, "d": 1})
    assert verdicts(found) == {"d": "match"}
    assert compare_outputs(None, None) == ()


def test_what_one_side_lacks_is_a_mismatch() -> None:
    x = torch.ones(2)
    found = compare_outputs({"a": x, "b": x, "c": x}, {"a": x, "c": None, "d": [x]})
    assert verdicts(found) == {"a": "match", "b": "mismatch", "c": "mismatch", "d[0]": "mismatch"}
    reasons = {output.path: output.reason for output in found}
    assert reasons["b"] == "the candidate has no such output; the reference has a tensor float32 [2]"
    assert reasons["d[0]"].startswith("the reference has no such output")


@pytest.mark.parametrize(
    ("reference", "candidate", "verdict"),
    [
        ("text", "text", "match"),
        ("text", "other", "mismatch"),
        (3, 3, "match"),
        (3, 4, "mismatch"),
        (0.1 + 0.2, 0.3, "rounding"),
        (2**70, 2**70, "match"),
        (2**70, 2**70 + 1, "mismatch"),
        ({1, 2}, {1, 2}, "match"),
        (Opaque(), Opaque(), "not_compared"),
        (Fickle(), Fickle(), "not_compared"),
        (torch.ones(1), "text", "mismatch"),
    ],
)
def test_what_is_no_tensor(reference: Any, candidate: Any, verdict: str) -> None:
    (output,) = compare_outputs({"v": reference}, {"v": candidate})
    assert output.verdict == verdict, output.reason
    assert output.reason or verdict == "match"


def test_a_container_that_holds_itself_ends() -> None:
    loop: list[Any] = [torch.ones(1)]
    loop.append(loop)
    assert next(iter(flatten_outputs(loop))) == "[0]"


def test_lists_can_be_compared_whole() -> None:
    config = ComparisonConfig(flatten_lists=False)
    one, other = [torch.zeros(3), torch.zeros(3)], [torch.zeros(3), torch.ones(3)]
    (output,) = compare_outputs({"h": one}, {"h": other}, config)
    assert (output.path, output.verdict, output.shape) == ("h", "mismatch", (2, 3))
    assert output.max_error_indices == (1, 0)
    assert len(compare_outputs({"h": one}, {"h": other})) == 2


def test_the_record_has_no_nan_and_keeps_the_picture() -> None:
    (output,) = compare_outputs(torch.tensor([1.0, 2.0]), torch.tensor([1.0, float("nan")]))
    assert output.max_absolute_error is output.candidate_value is None
    assert (output.reference_value, output.candidate_nonfinite) == (2.0, 1)
    assert output.heatmap is not None
    assert output.heatmap.values == (0.0, None)
    (without,) = compare_outputs(torch.ones(2), torch.zeros(2), ComparisonConfig(heatmaps=False))
    assert without.heatmap is None


def test_heatmaps_are_kept_of_the_worst() -> None:
    reference = {f"o{i}": torch.zeros(4) for i in range(20)} | {"same": torch.zeros(4), "number": torch.tensor(0.0)}
    candidate = {f"o{i}": torch.full((4,), float(i + 1)) for i in range(20)}
    candidate |= {"same": torch.zeros(4), "number": torch.tensor(99.0)}
    found = {output.path for output in compare_outputs(reference, candidate) if output.heatmap is not None}
    assert found == {f"o{i}" for i in range(5, 20)}


def test_the_worst_output_decides() -> None:
    match, rounding, mismatch, not_compared = (
        OutputDiff(verdict, verdict) for verdict in ("match", "rounding", "mismatch", "not_compared")
    )
    empty = OutputDiff("empty", "not_compared", shape=(0, 3), candidate_shape=(0, 3))
    assert overall_verdict([match]) == "match"
    assert overall_verdict([match, rounding]) == "rounding"
    assert overall_verdict([match, rounding, mismatch, not_compared]) == "mismatch"
    assert overall_verdict([match, not_compared]) == "not_compared"
    assert overall_verdict([match, empty]) == "match"
    assert overall_verdict([empty]) == overall_verdict([]) == "not_compared"
    assert overall_verdict([match], complete=False) == "not_compared"


def test_huggingface_outputs() -> None:
    modeling = pytest.importorskip("transformers.modeling_outputs")
    x = torch.ones(2)
    output = modeling.BaseModelOutputWithPooling(last_hidden_state=x, hidden_states=(x, x))
    assert list(flatten_outputs(output)) == ["last_hidden_state", "hidden_states[0]", "hidden_states[1]"]
