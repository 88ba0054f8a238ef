"""Two executions of one model: found faults, clean passes, and nothing of the user's changed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import torch._inductor.config as inductor_config
from torch import nn

from inductor_debug_jupyter.pipeline.backends.mock import mock_backend
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, DiffReport, KernelDiffHarness
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.records import DiffRecord
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, Any]:
        hidden = torch.relu(self.layer(x))
        return {"logits": self.norm(hidden) * scale, "states": [hidden]}


def wrong_by(amount: float) -> Callable[..., Any]:
    """A backend whose first output is off."""

    def wrong(graph_module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            first, *rest = graph_module(*args)
            return (first + amount, *rest)

        return run

    return wrong


def test_inductors_own_fault_is_found_and_without_it_all_is_well() -> None:
    model, x = Small().eval(), torch.randn(4, 8)
    with inductor_config.patch({"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}):
        report = KernelDiffHarness(model, x, model_name="small").compare()
    assert report.verdict == "mismatch"
    assert not report.passed
    assert report.outputs[0].verdict == "mismatch"
    assert {output.path for output in report.outputs} == {"logits", "states[0]"}
    assert "✗ small: eager against inductor" in str(report)
    assert KernelDiffHarness(model, x, test_backend="inductor").quick_check()


@pytest.mark.parametrize(
    "backend", ["eager", "dynamo", "aot_eager", mock_backend], ids=lambda backend: getattr(backend, "__name__", backend)
)
def test_backends_that_change_nothing(backend: Any) -> None:
    report = KernelDiffHarness(Small(), (torch.randn(4, 8),), test_backend=backend, backward=True).compare()
    assert report.verdict == "match", str(report)
    paths = {output.path for output in report.outputs}
    assert {"logits", "states[0]", "grad:layer.weight", "grad:norm.bias"} <= paths


def test_inputs_can_be_given_in_every_way() -> None:
    x = torch.randn(4, 8)
    forms: list[tuple[Any, dict[str, Any] | None]] = [
        (x, None),
        ((x,), None),
        ([x, 2.0], None),
        ({"x": x, "scale": 2.0}, None),
        ((x,), {"scale": 2.0}),
    ]
    for inputs, kwargs in forms:
        assert KernelDiffHarness(Small(), inputs, test_backend="dynamo", kwargs=kwargs).quick_check()
    assert KernelDiffHarness(lambda: torch.ones(2) + 1, (), test_backend="dynamo").quick_check()


def test_functions_and_compiled_models_are_compared_too() -> None:
    x = torch.randn(4)
    assert KernelDiffHarness(torch.sin, x, test_backend="aot_eager").compare().verdict == "match"
    assert KernelDiffHarness(lambda x: x.cos(), x, test_backend=wrong_by(1)).compare().verdict == "mismatch"
    # The reference is the model as it was before it was compiled with something wrong.
    compiled = torch.compile(Small(), backend=wrong_by(1))
    report = KernelDiffHarness(compiled, torch.randn(4, 8), test_backend="aot_eager").compare()
    assert report.verdict == "match"
    bound = Small().forward
    assert KernelDiffHarness(bound, torch.randn(4, 8), test_backend=wrong_by(1)).compare().verdict == "mismatch"


def test_a_wrong_backend_is_found_and_ranked() -> None:
    report = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=wrong_by(0.5)).compare()
    verdicts = [output.verdict for output in report.outputs]
    assert verdicts[0] == "mismatch"
    assert verdicts[-1] == "match"
    assert report.outputs[0].max_absolute_error == pytest.approx(0.5, rel=1e-4)
    assert report.outputs[0].heatmap is not None
    loose = ComparisonConfig(atol=1.0)
    assert KernelDiffHarness(
        Small(), torch.randn(4, 8), test_backend=wrong_by(0.5), comparison_config=loose
    ).quick_check()


def test_an_adapter_is_a_backend() -> None:
    class Device:
        def compile(self, graph_module: torch.fx.GraphModule, inputs: Any) -> Any:
            return wrong_by(2)(graph_module, inputs)

    class WithBackend:
        name = "chip"

        def as_backend(self) -> Any:
            return wrong_by(2)

    report = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=Device()).compare()
    assert (report.verdict, report.record.candidate) == ("mismatch", "Device")
    report = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=WithBackend()).compare()
    assert (report.verdict, report.record.candidate) == ("mismatch", "chip")


def test_our_own_adapters_are_backends() -> None:
    adapters = pytest.importorskip("inductor_debug_jupyter.pipeline.adapters")
    report = KernelDiffHarness(
        Small().eval(), torch.randn(8, 8), test_backend=adapters.MockAcceleratorAdapter()
    ).compare()
    assert report.verdict == "match", str(report)


def test_gradients_are_compared() -> None:
    class Bent(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * 3

    def bends_gradients(graph_module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        return lambda *args: tuple(Bent.apply(value) for value in graph_module(*args))

    x = torch.randn(4, 8, requires_grad=True)
    harness = KernelDiffHarness(Small(), x, test_backend=bends_gradients, backward=True)
    found = {output.path: output.verdict for output in harness.compare().outputs}
    assert found["logits"] == "match"
    assert found["grad:x"] == found["grad:layer.weight"] == "mismatch"
    assert KernelDiffHarness(Small(), x, test_backend=bends_gradients).quick_check()


def test_gradients_that_were_asked_for_and_are_not_there_are_no_pass() -> None:
    harness = KernelDiffHarness(lambda x: x + 1, torch.ones(2), test_backend="dynamo", backward=True)
    report = harness.compare()
    assert report.verdict == "not_compared"
    assert "no gradients to compare" in " ".join(report.record.notes)


def test_nothing_of_the_users_is_changed() -> None:
    model, x = Small().train(), torch.randn(4, 8, requires_grad=True)
    model(x)["logits"].sum().backward()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = {name: value.grad for name, value in model.named_parameters()}
    kept, x_before, x_gradient = (
        {n: g.clone() for n, g in gradients.items() if g is not None},
        x.detach().clone(),
        x.grad,
    )
    generators = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())

    def draws(value: torch.Tensor) -> Any:
        random.random()
        np.random.rand()
        return model(value + torch.rand(()))

    KernelDiffHarness(model, x, test_backend="aot_eager", backward=True).compare()
    KernelDiffHarness(draws, x, test_backend="dynamo").compare()
    KernelDiffHarness(model, x, test_backend=wrong_by(1)).compare()

    assert model.training
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    for name, value in model.named_parameters():
        assert value.grad is gradients[name]
        torch.testing.assert_close(value.grad, kept[name])
    assert x.grad is x_gradient
    assert torch.equal(x, x_before)
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert random.getstate() == generators[1]
    assert np.array_equal(np.random.get_state()[1], generators[2])


def test_statistics_do_not_drift() -> None:
    model = Small().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for _ in range(2):
        assert KernelDiffHarness(model, torch.randn(4, 8) + 5, test_backend="aot_eager").quick_check()
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_a_module_that_cannot_be_copied_is_restored() -> None:
    class Stubborn(Small):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("there is only one")

        def forward(self, x: torch.Tensor, scale: float = 1.0) -> dict[str, Any]:
            self.seen = getattr(self, "seen", 0) + 1
            return super().forward(x, scale)

    model = Stubborn().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = KernelDiffHarness(model, torch.randn(4, 8), test_backend="aot_eager", backward=True).compare()
    assert report.verdict == "match", str(report)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not hasattr(model, "seen")


def test_the_users_compile_caches_are_not_touched() -> None:
    from torch._dynamo.eval_frame import _get_cache_entries_for_region

    compiles: list[int] = []

    def counting(graph_module: torch.fx.GraphModule, inputs: Any) -> Any:
        compiles.append(1)
        return graph_module.forward

    model = Small().eval()
    compiled = torch.compile(model, backend=counting)
    compiled(torch.randn(4, 8))
    assert len(compiles) == 1
    code = Small.forward.__code__
    entries = len(_get_cache_entries_for_region(code, -1))
    assert entries == 1
    for rows in (4, 5, 6):  # other sizes would make a dimension dynamic
        assert KernelDiffHarness(model, torch.randn(rows, 8), test_backend="aot_eager").quick_check()
    assert len(_get_cache_entries_for_region(code, -1)) == entries
    compiled(torch.randn(4, 8))
    assert len(compiles) == 1
    compiled(torch.randn(7, 8))
    assert len(compiles) == 2


def test_random_numbers_are_the_same_on_both_sides() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).train()
    report = KernelDiffHarness(model, torch.randn(4, 8), test_backend="inductor").compare()
    assert report.passed, str(report)


def test_inputs_are_cloned_as_they_lie() -> None:
    base = torch.randn(4, 6)
    leaf = torch.randn(3, requires_grad=True)
    inputs = {"t": base.T, "row": base[1], "wide": torch.ones(1).expand(5), "computed": leaf * 2, "n": 3}
    clone = clone_inputs(inputs)
    assert clone["t"].stride() == inputs["t"].stride()
    assert clone["wide"].stride() == (0,)
    assert clone["computed"].requires_grad
    assert clone["computed"].is_leaf
    assert torch.equal(clone["computed"], inputs["computed"])
    clone["t"][:, 1] = 7
    assert clone["row"].eq(7).all(), "what shared memory still does"
    assert not base.eq(7).any()


def test_a_model_that_changes_its_input_sees_the_same_one_twice() -> None:
    x = torch.ones(3)
    report = KernelDiffHarness(lambda x: x.add_(1) * 2, x, test_backend="aot_eager").compare()
    assert report.verdict == "match"
    assert x.eq(1).all()


def test_a_side_that_raises_is_a_result() -> None:
    def fails(graph_module: torch.fx.GraphModule, inputs: Any) -> Any:
        raise RuntimeError("no such kernel")

    def crashes(graph_module: torch.fx.GraphModule, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            raise ValueError("at run time")

        return run

    for backend, message in ((fails, "no such kernel"), (crashes, "at run time"), (lambda g, i: 3, "cannot be called")):
        report = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=backend).compare()
        assert report.verdict == "not_compared"
        assert not report.passed
        assert message in " ".join(report.record.notes)
        assert "NOTHING WAS COMPARED" in report.summary()
        assert not KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=backend).quick_check()
    report = KernelDiffHarness(Small(), torch.randn(4, 9)).compare()
    assert "the reference (eager) raised RuntimeError" in " ".join(report.record.notes)


def test_a_model_that_does_not_come_back_is_given_up() -> None:
    def sleeps(x: torch.Tensor) -> torch.Tensor:
        time.sleep(60)
        return x

    report = KernelDiffHarness(sleeps, torch.ones(2), timeout=0.2).compare()
    assert report.verdict == "not_compared"
    assert "no answer within 0.2 s" in " ".join(report.record.notes)
    assert KernelDiffHarness(Small(), torch.randn(4, 8), test_backend="dynamo", timeout=60).quick_check()


def test_it_works_in_inference_mode() -> None:
    model = Small()
    with torch.inference_mode():
        report = KernelDiffHarness(model, torch.randn(4, 8), test_backend="aot_eager", backward=True).compare()
    assert report.verdict == "match", str(report)
    assert any(output.path == "grad:layer.weight" for output in report.outputs)


def test_eager_against_eager_is_not_sold_as_a_comparison() -> None:
    @torch.compiler.disable
    def untraceable(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    report = KernelDiffHarness(lambda x: untraceable(x), torch.ones(2), test_backend="aot_eager").compare()
    assert report.verdict == "not_compared"
    assert "nothing to compile" in " ".join(report.record.notes)
    same = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend="eager").compare()
    assert "repeats itself" in " ".join(same.record.notes)

    def fails(graph_module: torch.fx.GraphModule, inputs: Any) -> Any:
        raise RuntimeError("no such kernel")

    with torch._dynamo.config.patch(suppress_errors=True):
        report = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=fails).compare()
    assert report.verdict == "not_compared"
    assert "ran eagerly: RuntimeError: no such kernel" in " ".join(report.record.notes)


def test_a_model_without_outputs_has_not_passed() -> None:
    report = KernelDiffHarness(lambda x: None, torch.ones(2), test_backend="eager").compare()
    assert report.verdict == "not_compared"
    assert "nothing that could be compared" in " ".join(report.record.notes)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"test_backend": "nobody"}, "test_backend='nobody'; allowed: eager, dynamo"),
        ({"reference_backend": 3}, "reference_backend=3; allowed"),
        ({"isolate": 1}, "isolate=1; allowed"),
        ({"timeout": 0}, "timeout=0; allowed"),
        ({"inputs": {1: torch.ones(1)}}, "the key 1"),
        ({"model": 3}, "model=int"),
        ({"comparison_config": {}}, "comparison_config={}"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError) as raised:
        KernelDiffHarness(**{"model": Small(), "inputs": torch.ones(1, 8), **arguments})
    assert named in str(raised.value)
    assert isinstance(raised.value, OptionError)


def test_the_report_is_json_and_lands_among_the_reports(tmp_path: Path) -> None:
    report = KernelDiffHarness(Small(), torch.randn(4, 8), model_name="a/b", test_backend=wrong_by(1)).compare()
    path = report.save_json()
    assert path.parent == tmp_path / "debug_artifacts" / "reports"
    data = json.loads(path.read_text())
    assert data == json.loads(json.dumps(report.to_dict()))
    assert (data["passed"], data["verdict"], data["outputs"][0]["verdict"]) == (False, "mismatch", "mismatch")
    assert msgspec.convert(data, DiffRecord) == report.record
    own = report.save_json(tmp_path / "deep" / "mine.json")
    assert own.read_text() == path.read_text()


def test_pictures_on_request(tmp_path: Path) -> None:
    harness = KernelDiffHarness(
        Small(), torch.randn(4, 8), test_backend=wrong_by(1), comparison_config=ComparisonConfig(heatmaps=False)
    )
    assert harness.compare().record.images == ()
    assert not (tmp_path / "debug_artifacts").exists()
    report = harness.compare(generate_visualizations=True)
    images = [Path(path) for path in report.record.images]
    assert len(images) == 2, "a summary, and the one output that differs"
    assert {image.parent for image in images} == {tmp_path / "debug_artifacts" / "visualizations"}
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in images)
    assert list((tmp_path / "debug_artifacts" / "reports").glob("kernel_diff_Small*.json"))
    elsewhere = harness.compare(generate_visualizations=True, output_dir=tmp_path / "out")
    assert {Path(path).parent for path in elsewhere.record.images} == {tmp_path / "out"}
    assert list((tmp_path / "out").glob("*.json"))


def test_a_picture_that_fails_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from inductor_debug_jupyter.pipeline.diff import pictures

    def broken(*args: object) -> bytes:
        raise ValueError("no ink")

    monkeypatch.setattr(pictures, "_heatmap_png", broken)
    (tmp_path / "file").write_text("in the way")
    harness = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=wrong_by(1))
    report = harness.compare(generate_visualizations=True)
    assert report.verdict == "mismatch"
    assert len(report.record.images) == 1
    assert "no ink" in " ".join(report.record.notes)
    blocked = harness.compare(generate_visualizations=True, output_dir=tmp_path / "file")
    assert blocked.record.images == ()
    assert "no JSON was written" in " ".join(blocked.record.notes)


def test_a_huggingface_model() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=32, **sizes, output_hidden_states=True)
    model = transformers.BertModel(config).eval()
    inputs = {"input_ids": torch.arange(6)[None], "attention_mask": torch.ones(1, 6, dtype=torch.long)}
    report: DiffReport = KernelDiffHarness(model, inputs, test_backend="aot_eager").compare()
    assert report.passed, str(report)
    paths = {output.path for output in report.outputs}
    assert {"last_hidden_state", "pooler_output", "hidden_states[0]", "hidden_states[1]"} <= paths
    assert KernelDiffHarness(model, inputs, test_backend=wrong_by(1)).compare().verdict == "mismatch"


def test_a_key_value_cache_is_looked_into() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=32, n_positions=16)
    model = transformers.GPT2LMHeadModel(config).eval()
    report = KernelDiffHarness(model, {"input_ids": torch.arange(4)[None]}, test_backend="aot_eager").compare()
    assert report.passed, str(report)
    assert any(output.path.startswith("past_key_values") for output in report.outputs)
