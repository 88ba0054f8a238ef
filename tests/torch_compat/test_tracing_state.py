"""Ctrl-C at every line with which torch's tracers put back what they changed: nothing stays changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
import torch._functorch.config as functorch_config
from torch._dynamo import compiled_autograd, convert_frame
from torch._dynamo.backends.debugging import aot_eager
from torch._guards import TracingContext, active_fake_mode, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import _symbolic_trace, graph_module
from torch.fx.experimental import proxy_tensor, symbolic_shapes
from torch.utils import _config_module, _python_dispatch

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.torch_compat import instruments, patches


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(5, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x)) + 1


def codes_named(name: str, inside: CodeType) -> list[CodeType]:
    """The code objects of that name among those that a function or class body makes."""
    made = [each for each in inside.co_consts if isinstance(each, CodeType)]
    return [each for each in made if each.co_name == name] + [
        found for each in made for found in codes_named(name, each)
    ]


def generator(function: Any) -> CodeType:
    return function.__wrapped__.__code__


PUT_BACKS: dict[str, list[CodeType]] = {
    "fx patches": [
        generator(_symbolic_trace._new_patcher),
        _symbolic_trace._Patcher.revert_all_patches.__code__,
        _symbolic_trace._PatchedFnSetAttr.revert.__code__,
        _symbolic_trace._PatchedFnSetItem.revert.__code__,
    ],
    "fx flag": [_symbolic_trace.Tracer.trace.__code__],
    "dynamo": codes_named("_fn", convert_frame.preserve_global_state.__code__),
    "contexts": [
        generator(tracing),
        generator(compiled_autograd._disable),
        generator(proxy_tensor._set_make_fx_tracer),
    ],
    "guards": [generator(symbolic_shapes._suppress_guards)],
    "modes": [FakeTensorMode.__exit__.__code__, _python_dispatch.TorchDispatchMode.__exit__.__code__],
    "settings": codes_named("__exit__", _config_module.ConfigModule.patch.__code__),
}
"""What is put back → the functions that do so. Ctrl-C strikes in each of their lines."""
IN_THE_SUITE = {"dynamo"}


class Striker:
    """A Python tracer that notes the lines of some functions, and sends Ctrl-C at one of them."""

    def __init__(self, codes: list[CodeType]) -> None:
        self.codes = codes
        self.lines: dict[tuple[CodeType, int], None] = {}
        self.target: tuple[CodeType, int] | None = None

    def backend(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        """``aot_eager``, traced; of the frames that are running already, those that wait for it, too."""
        sys.settrace(self.call)
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code in self.codes:
                frame.f_trace = self.line
        return aot_eager(graph, inputs)

    def call(self, frame: FrameType, _: str, __: Any) -> Any:
        return self.line if frame.f_code in self.codes else None

    def line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            place = (frame.f_code, frame.f_lineno)
            self.lines[place] = None
            if place == self.target:
                self.target = None
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return self.line


def state() -> dict[str, Any]:
    """What a user would notice when it stays changed."""
    return {
        "calls": (torch.nn.Module.__call__, torch.nn.Module.__getattr__, graph_module._forward_from_src),
        "wrapped": [names.get(name) for (_, name), names in _symbolic_trace._wrapped_fns_to_patch.items()],
        "fx": (_symbolic_trace.is_fx_tracing(), _symbolic_trace.CURRENT_PATCHER),
        "contexts": (TracingContext.try_get(), active_fake_mode(), compiled_autograd.active_disable_ctx),
        "make_fx": proxy_tensor._CURRENT_MAKE_FX_TRACER,
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "flags": (torch.is_grad_enabled(), torch._C._only_lift_cpu_tensors(), torch.get_default_dtype()),
        "in a mode": _python_dispatch._is_in_torch_dispatch_mode,
        "guards": getattr(symbolic_shapes.TLS, "suppress_guards", False),
        "settings": functorch_config.get_config_copy(),
        "ours": patches.installed(),
    }


@pytest.mark.parametrize(
    "what", [name if name in IN_THE_SUITE else pytest.param(name, marks=pytest.mark.long) for name in PUT_BACKS]
)
def test_a_strike_in_any_line_of_a_put_back_leaves_nothing_changed(what: str) -> None:
    """In a process of its own: a strike that is not mended may end it."""
    root = Path(__file__).parents[2]
    struck = subprocess.run(
        [sys.executable, "-X", "faulthandler", __file__, what],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert struck.returncode == 0, struck.stderr[-4000:]
    assert struck.stdout.startswith("struck at"), struck.stdout


def strike_everywhere(what: str) -> int:
    """Strike at every line of a put-back; answers with their number."""
    torch.manual_seed(0)
    with capture(eager=True, lower="dynamo", keep_inputs=True) as session:
        Net()(torch.ones(3, 5))
    instruments.sys = _Untraced()  # type: ignore[attr-defined]
    striker = Striker(PUT_BACKS[what])
    session.diff(candidate=striker.backend, backward=True)
    assert {code for code, _ in striker.lines} >= set(PUT_BACKS[what][:2]), "torch no longer goes there"
    before = state()
    for place in list(striker.lines):
        striker.target = place
        with pytest.raises(KeyboardInterrupt):
            session.diff(candidate=striker.backend, backward=True)
        assert (place, state()) == (place, before)
    sys.settrace(None)
    assert session.diff(candidate=aot_eager, backward=True).verdict == "match"
    return len(striker.lines)


class _Untraced:
    """``sys`` as it is while nobody traces: our own code switches Python tracers off."""

    def __getattr__(self, name: str) -> Any:
        return (lambda *_: None) if name in {"gettrace", "settrace", "getprofile", "setprofile"} else getattr(sys, name)


if __name__ == "__main__":
    print(f"struck at {strike_everywhere(sys.argv[1])} lines")
