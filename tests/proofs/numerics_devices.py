"""The devices of the suite ``numerics``: healthy and faulty simulators, a loop that goes wrong, OpenVINO."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch._dynamo import lookup_backend
from torch._subclasses.fake_tensor import unset_fake_temporarily

from inductor_debug_jupyter import KernelDiffHarness, StickAdapter, compare_generation
from inductor_debug_jupyter.benchmarks.models import Built, transformers
from inductor_debug_jupyter.benchmarks.printing import print_line, print_table
from inductor_debug_jupyter.pipeline.adapters.stick import parse_fault
from tests.proofs.localize_cases import Probed

_FAULTS = ("copy-first-stick", "negative-zero", "wrong-accumulation", "read-padding")
_EXPLAINED = "as float16 gives it"
_STEP = 7


def devices_models(names: tuple[str, ...] = ("bert-2l", "resnet-18", "mamba", "gpt2", "vit")) -> dict[str, Any]:
    """Name → a function of a seed that builds the model with its inputs."""
    return {name: getattr(_Models, name.replace("-", "_")) for name in names}


class _Models:
    """Architectures of transformers from a config, a few layers wide enough for the simulator's sticks."""

    @staticmethod
    def bert_2l(seed: int) -> Built:
        """Two layers."""
        torch.manual_seed(seed)
        sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
        config = transformers().BertConfig(vocab_size=500, **sizes)
        return Built(transformers().BertModel(config).eval(), (torch.randint(0, 500, (2, 32)),))

    @staticmethod
    def resnet_18(seed: int) -> Built:
        """Eighteen layers, narrow."""
        torch.manual_seed(seed)
        widths = [16, 32, 64, 128]
        config = transformers().ResNetConfig(
            embedding_size=16, hidden_sizes=widths, depths=[2] * 4, layer_type="basic", num_labels=10
        )
        return Built(transformers().ResNetForImageClassification(config).eval(), (torch.randn(2, 3, 64, 64),))

    @staticmethod
    def mamba(seed: int) -> Built:
        """Two layers, eight tokens."""
        torch.manual_seed(seed)
        config = transformers().MambaConfig(
            vocab_size=200, hidden_size=64, num_hidden_layers=2, state_size=8, use_cache=False
        )
        return Built(transformers().MambaModel(config).eval(), (torch.randint(0, 200, (1, 8)),))

    @staticmethod
    def gpt2(seed: int) -> Built:
        """Two layers, without a cache."""
        torch.manual_seed(seed)
        sizes = {"n_layer": 2, "n_embd": 128, "n_head": 4, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
        config = transformers().GPT2Config(vocab_size=500, use_cache=False, **sizes)
        return Built(transformers().GPT2LMHeadModel(config).eval(), (torch.randint(0, 500, (2, 32)),))

    @staticmethod
    def vit(seed: int) -> Built:
        """Two layers, 16 patches."""
        torch.manual_seed(seed)
        sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
        config = transformers().ViTConfig(image_size=32, patch_size=8, **sizes)
        return Built(transformers().ViTModel(config).eval(), (torch.randn(2, 3, 32, 32),))


def healthy(seeds: int, models: dict[str, Callable[[int], Built]]) -> bool:
    """Every output of fault-free models on the simulator is as float16 gives it, with every seed."""
    rows, good = [], True
    for name, build in models.items():
        started, reasons, red, largest = time.perf_counter(), 0, 0, 0.0
        for seed in range(seeds):
            torch.compiler.reset()
            built = build(seed)
            with torch.no_grad():
                device = StickAdapter(check=False)
                report = KernelDiffHarness(built.module, built.inputs, test_backend=device).compare()
            red += sum(not output.passed for output in report.outputs)
            reasons += sum(output.verdict == "match" or _EXPLAINED in output.reason for output in report.outputs)
            largest = max([largest, *(_ratio(output.reason) for output in report.outputs)])
            good &= report.passed and all(
                each.verdict == "match" or _EXPLAINED in each.reason for each in report.outputs
            )
        seconds = f"{time.perf_counter() - started:.0f}"
        print_line(f"{name}: {seeds} seeds, {reasons} outputs {_EXPLAINED}, {red} red, {seconds} s")
        rows.append((name, str(seeds), str(reasons), str(red), f"{largest:.2f}×", seconds))
    columns = ("healthy on stick128", "seeds", f"outputs {_EXPLAINED}", "red", "largest", "seconds")
    print_table(columns, rows, right=columns[1:])
    return good


def _ratio(reason: str) -> float:
    """The figure of ``as float16 gives it: at most 0.8× of …``."""
    figure = reason.partition("at most ")[2].partition("×")[0]
    return float(figure) if figure.replace(".", "").isdecimal() else 0.0


def faulty(models: dict[str, Callable[[int], Built]]) -> bool:
    """Each of the simulator's faults is red, and its op and line are named; nothing else is blamed."""
    rows, good = [], True
    for name, build in models.items():
        for text in _FAULTS:
            torch.compiler.reset()
            built, fault = build(0), parse_fault(text)
            harness = KernelDiffHarness(
                Probed(built.module), built.inputs, test_backend=StickAdapter(faults=[fault], check=False)
            )
            with torch.no_grad():
                verdict = harness.compare().verdict
                culprits = harness.localize().culprits
            right = bool(culprits) and all(fault.is_on(each.op) and each.source is not None for each in culprits)
            good &= right and verdict == "mismatch"
            first = culprits[0] if culprits else None
            where = f"{first.op}: {first.source.text.strip()[:44]}" if first and first.source else "nothing"
            rows.append((name, text, verdict, "right" if right else "WRONG", where))
    print_table(("model", "fault", "verdict", "op and line", "the first"), rows)
    return good


def loop() -> bool:
    """A GPT-2 whose kernel for ten keys leaves one out: step, op and line; and one whose choice only rounding flips."""
    torch.manual_seed(0)
    torch.compiler.reset()
    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 61, "n_positions": 32}
    library = transformers()
    model = library.GPT2LMHeadModel(library.GPT2Config(attn_implementation="eager", **sizes)).eval()
    return _one_step_is_wrong(model) and _two_tokens_are_as_good(model)


def _chip(change: Callable[[torch.fx.Node, Any], Any]) -> Callable[..., Any]:
    """A backend that computes as torch does, and then changes some values."""

    class Chip(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            return change(n, super().run_node(n))

    return lambda graph, _: Chip(graph).run


def _one_step_is_wrong(model: Any) -> bool:
    def short(node: torch.fx.Node, made: Any) -> Any:
        if "softmax" not in str(node.target) or made.shape[-1] != _PROMPT.shape[1] + _STEP - 1:
            return made
        return torch.cat([made[..., :-1], torch.zeros_like(made[..., -1:])], -1)

    found = compare_generation(model, _PROMPT, candidate=_chip(short), steps=12)
    print_line(str(found))
    step, blamed = found.first_wrong, found.localization.culprits if found.localization else ()
    return step is not None and step.number == _STEP and [("softmax" in each.op) for each in blamed[:1]] == [True]


def _two_tokens_are_as_good(model: Any) -> bool:
    """The likeliest token has a twin, which a device makes likelier by the last digit."""
    with torch.no_grad():
        best = int(model(_PROMPT).logits[0, -1].argmax())
        twin = best + 1
        model.lm_head.weight[twin] = model.lm_head.weight[best]

    def last_digit(node: torch.fx.Node, made: Any) -> Any:
        if "linear" not in str(node.target) or made.shape[-1] != len(model.lm_head.weight):
            return made
        made = made.clone()
        made[..., twin] = torch.nextafter(made[..., twin], torch.tensor(torch.inf))
        return made

    found = compare_generation(model, _PROMPT, candidate=_chip(last_digit), steps=1)
    print_line(str(found))
    flips = [(flip.reference, flip.candidate, flip.by_rounding) for flip in found.steps[0].flips]
    return found.passed and flips == [(best, twin, True)]


_PROMPT = torch.tensor([[5, 11, 2, 40]])


def openvino_apart(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """OpenVINO's backend, outside of Dynamo's tracing.

    It traces a graph again with open sizes; of a convolution these stay in Dynamo's guards, and torch 2.13 raises
    ``sources must not be empty for symbol`` (OpenVINO 2026.4).
    """
    plain = [torch.zeros(each.shape, dtype=each.dtype) if isinstance(each, torch.Tensor) else each for each in inputs]
    with torch._guards.tracing(None), unset_fake_temporarily():
        compiled: Callable[..., Any] = lookup_backend("openvino")(graph, plain)
    return compiled


_ALONE = """
import sys, torch, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, ".")
from tests.proofs.numerics_devices import openvino_apart, openvino_models
for name, (model, x) in openvino_models().items():
    with torch.no_grad():
        exact = model.double()(x.double()).float()
        model.float()
        try:
            seen = torch.compile(model, backend=openvino_apart)(x)
        except Exception as error:
            print(f"{name}|raises|{str(error).strip().splitlines()[0][:60]}")
            continue
        def narrow(module, inputs):
            return tuple(each.bfloat16().float() for each in inputs)
        kept = {key: value.clone() for key, value in model.state_dict().items()}
        hooks = [each.register_forward_pre_hook(narrow) for each in model.modules()
                 if isinstance(each, (torch.nn.Linear, torch.nn.Conv2d))]
        for each in model.modules():
            if isinstance(each, (torch.nn.Linear, torch.nn.Conv2d)):
                each.weight.data = each.weight.data.bfloat16().float()
        bfloat16 = model(x)
    size = exact.square().mean().sqrt()
    off, would = ((each - exact).square().mean().sqrt() / size for each in (seen, bfloat16))
    what = "float32" if off < 1e-5 else "bfloat16 products" if off > 0.3 * would else "something else"
    print(f"{name}|{what}|{off:.1e} off, bfloat16 products would be {would:.1e}")
"""


def openvino_models() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """An encoder as BERT has two of, and a convolutional network."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True, activation="gelu")
    network = nn.Sequential(
        *(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )
    encoder = _Plain(layer, 2)
    return {
        "BERT, 2 layers": (encoder.eval(), torch.randn(2, 32, 128)),
        "ConvNet": (network.eval(), torch.randn(4, 3, 32, 32)),
    }


class _Plain(nn.Module):
    """Encoder layers op by op: without gradients torch would run each as one op of its own."""

    def __init__(self, layer: nn.TransformerEncoderLayer, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(layer.linear1.in_features) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer after the other."""
        for layer in self.layers:
            x = layer(x)
        return x


class _Layer(nn.Module):
    """Attention of four heads, and a feed-forward network."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """BERT's order: normalized behind each sum."""
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) / (width // 4) ** 0.5).softmax(-1)
        x = self.first(x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width)))
        made: torch.Tensor = self.second(x + self.down(nn.functional.gelu(self.up(x))))
        return made


def openvino() -> bool:
    """What OpenVINO does here, in our words and in those of a script that does not use us."""
    if importlib.util.find_spec("openvino") is None:
        print_line("OpenVINO is not installed: pip install openvino, and run this again")
        return True
    rows = []
    done = subprocess.run(
        [sys.executable, "-c", _ALONE], capture_output=True, text=True, timeout=1800, env=os.environ, check=False
    )
    alone = {line.split("|")[0]: line.split("|")[1:] for line in done.stdout.splitlines() if line.count("|") == 2}
    good = True
    for name, (model, x) in openvino_models().items():
        torch.compiler.reset()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = KernelDiffHarness(model, (x,), test_backend=openvino_apart).compare()
        what = next((note for note in report.record.notes if "look like" in note), "")
        ours = what.partition("look like ")[2] or ("float32" if report.passed else "raises")
        other = alone.get(name, ["", done.stderr.strip()[-60:].replace("\n", " ")])
        good &= report.verdict != "mismatch" and bool(other[0]) and ours.startswith(other[0])
        rows.append((name, report.verdict, ours, *other))
    print_table(("on OpenVINO", "verdict", "our words", "without us", "and its figures"), rows)
    return good
