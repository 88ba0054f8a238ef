"""Every hook has a canary: it says which private name is gone, or that torch has stopped calling it."""

from __future__ import annotations

import importlib

import pytest

from inductor_debug_jupyter.pipeline.torch_compat import canaries, hooks
from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite


def problems(*, compiling: bool) -> dict[str, str]:
    return {one.part: one.problem for one in canaries.canaries(compiling=compiling) if one.problem is not None}


def test_every_part_works_with_this_torch() -> None:
    found = canaries.canaries()
    assert [(one.part, one.problem) for one in found] == [("imports", None), *((part, None) for part in canaries.PARTS)]
    ways_in = {"already compiled functions", "plain modules", "localization", "backward compilers"}
    assert {site.part for site in hooks.sites()} | {"trace"} | ways_in == set(canaries.PARTS)
    assert {name for one in found for name in one.names} >= {site.name for site in hooks.sites()}


@pytest.mark.parametrize("site", hooks.sites(), ids=lambda site: site.name)
def test_a_name_that_is_gone_is_told(site: HookSite, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = site.owner()
    if name == "__init__":  # every class has one: the class must go
        owner, name = importlib.import_module(site.module), site.attribute.split(".")[0]
    monkeypatch.delattr(owner, name)
    assert problems(compiling=False) == {site.part: f"this torch has no {site.name}"}


def test_a_module_that_is_gone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = HookSite("ir", "torch._inductor.nowhere", "log_ir", lambda original: original)
    monkeypatch.setattr(hooks, "sites", lambda: (gone,))
    assert "this torch has no torch._inductor.nowhere" in problems(compiling=False)["ir"]


def test_the_trace_log_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch._logging._internal.trace_log")
    assert problems(compiling=False) == {"trace": "this torch has no torch._logging._internal.trace_log"}


def test_hooks_that_torch_does_not_call_any_more_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are there, but what torch calls now is something else; and one is called with something unreadable."""

    def elsewhere(site: HookSite) -> HookSite:
        if site.part in {"guards", "kernels", "caches"} or site.attribute == "log_ir_post_fusion":
            return HookSite(site.part, "torch._inductor.debug", "create_fx_from_snodes", site.wrap)
        return site

    def unreadable(self: object, *_: object) -> None:
        raise KeyError("renamed")

    moved = tuple(elsewhere(site) for site in hooks.sites())
    monkeypatch.setattr(hooks, "sites", lambda: moved)
    monkeypatch.setattr(canaries._RecordingListener, "post_grad_graph", unreadable, raising=False)
    assert problems(compiling=True) == {
        "guards": "it is there, but a tiny compile did not call it for guards",
        "ir": "it is there, but a tiny compile did not call it for IR after fusion",
        "kernels": "it is there, but a tiny compile did not call it for a kernel's nodes",
        "caches": "it is there, but a tiny compile did not call it for bypassing the caches",
        "post_grad": "it was called, but what it was given could not be read (KeyError: 'renamed')",
    }


def test_a_compile_that_fails_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no compiler today\nand more")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", broken)
    found = problems(compiling=True)
    assert "dynamo" not in found
    assert "failed before it came to code" in found["code"]
    assert "no compiler today" in found["code"]
    assert "\n" not in found["code"]
