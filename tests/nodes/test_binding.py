"""Names in the user's namespace: what is theirs stays theirs."""

from __future__ import annotations

import pytest
import torch

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.nodes.handle import bind


def values() -> dict[str, object]:
    def function() -> None: ...

    return {"inputs": {"self": torch.ones(2)}, "output": torch.ones(2), "function": function}


def test_three_names_and_again() -> None:
    namespace: dict[str, object] = {"other": 1}
    bound = bind(namespace, "addmm_3", values())
    assert bound.names == {"inputs": "addmm_3_inputs", "output": "addmm_3_output", "function": "addmm_3"}
    assert str(bound) == "bound addmm_3_inputs, addmm_3_output, addmm_3"
    second = values()
    again = bind(namespace, "addmm_3", second)
    assert again.names == bound.names, "what was bound here before is replaced"
    assert namespace["addmm_3"] is second["function"]
    assert len(namespace) == 4


def test_what_the_user_has_is_never_taken() -> None:
    mine = torch.zeros(1)
    namespace: dict[str, object] = {"relu": mine}
    bound = bind(namespace, "relu", values())
    assert namespace["relu"] is mine
    assert bound.names == {"inputs": "relu_v2_inputs", "output": "relu_v2_output", "function": "relu_v2"}
    assert "(relu was taken)" in str(bound)
    namespace["relu_v2_output"] = "mine now"
    third = bind(namespace, "relu", values())
    assert namespace["relu_v2_output"] == "mine now"
    assert third.names["function"] == "relu_v3"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sum", "sum_v2"),  # a built-in
        ("lambda", "lambda_v2"),
        ("a b-c", "a_b_c"),
        ("3d", "node_3d"),
        ("__import__('os')", "__import____os__"),
    ],
)
def test_names_of_a_model_are_data(name: str, expected: str) -> None:
    namespace: dict[str, object] = {}
    assert bind(namespace, name, values()).names["function"] == expected
    assert all(each.isidentifier() for each in namespace)


def test_a_prefix() -> None:
    namespace: dict[str, object] = {}
    assert bind(namespace, "mm", values(), prefix="kernel_").names["output"] == "kernel_mm_output"
    with pytest.raises(OptionError, match="prefix='1 '; allowed: the beginning of a Python name"):
        bind(namespace, "mm", values(), prefix="1 ")
