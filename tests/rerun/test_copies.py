"""Copies to run on: each object becomes its own copy, whatever was copied and forgotten before."""

from __future__ import annotations

import torch

from inductor_debug_jupyter.pipeline.rerun.copies import Memo, clone_inputs, memo_copy, own_module


def test_a_new_dict_is_never_taken_for_a_memo_that_is_gone():
    """The list of originals that deepcopy keeps under a memo's id once passed for the copy of the call's kwargs."""
    memo: Memo = {}
    with own_module(torch.nn.Linear(4, 4), memo):
        known = memo_copy(memo_copy(memo))
        dicts = [{"scale": 2} for _ in range(1000)]
        assert not [each for each in dicts if id(each) in known]
        assert clone_inputs(dicts, known) == dicts


def test_a_memo_keeps_the_originals_alive_under_its_own_id_only():
    model = torch.nn.Linear(4, 4)
    memo: Memo = {}
    with own_module(model, memo):
        for known in (memo, memo_copy(memo), memo_copy(memo_copy(memo))):
            lists = [key for key, value in known.items() if isinstance(value, list) and _holds(value, model)]
            assert lists == [id(known)]


def _holds(items: list[object], wanted: object) -> bool:
    return any(item is wanted for item in items)
