"""The zoo's models by name, each built anew from a seed: two builds of one seed are equal, down to the inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from inductor_debug_jupyter.benchmarks.models import transformers
from inductor_debug_jupyter.pipeline.torch_compat.state import sizes
from tests.proofs.inside_torch.planting import Place
from tests.proofs.zoo import models
from tests.proofs.zoo.models import WIDTH
from tests.proofs.zoo.values import REGIMES, Regime, Tail, float_input

_TOKENS = 50


_MARK = "# site:"

Sites = Mapping[str, frozenset[Place]]
"""Op → the lines that have it; an op in brackets (``(erf)``, ``<exp>``) is not there before decompositions."""


def sites_of(*owners: type | Callable[..., Any]) -> dict[str, frozenset[Place]]:
    """The marked lines of classes and functions."""
    found: dict[str, set[Place]] = {}
    for owner in owners:
        lines, first = inspect.getsourcelines(owner)
        name = Path(inspect.getsourcefile(owner) or "").name
        for offset, line in enumerate(lines):
            _, mark, ops = line.partition(_MARK)
            for op in ops.split() if mark else ():
                found.setdefault(op, set()).add((name, first + offset))
    return {op: frozenset(places) for op, places in found.items()}


def lines_with(module: ModuleType, text: str) -> frozenset[Place]:
    """The lines of a module that have a text."""
    path = Path(inspect.getsourcefile(module) or "")
    lines = path.read_text().splitlines()
    return frozenset((path.name, number) for number, line in enumerate(lines, 1) if text in line)


@dataclass(frozen=True)
class Subject:
    """A model to be run: ``call(*inputs)``; ``modules`` hold all of its parameters and buffers."""

    call: Callable[..., Any]
    inputs: tuple[Any, ...]
    modules: tuple[nn.Module, ...]


@dataclass(frozen=True)
class ModelEntry:
    """One model of the zoo.

    Args:
        make: builds it for a regime.
        shape: of its input.
        sites: op → its lines.
        tokens: whether its input is whole numbers.
        training: whether it is in training mode.
        one_graph: whether Dynamo makes one graph of it.
        writes: whether it writes to inputs, buffers or parameters.
        hub: whether it needs the ``transformers`` library.
        open_sizes: whether Dynamo leaves its sizes open.
    """

    make: Callable[[Regime], tuple[Callable[..., Any], list[nn.Module]]]
    shape: tuple[int, ...]
    sites: Callable[[], Sites]
    tokens: bool = False
    training: bool = False
    one_graph: bool = True
    writes: bool = False
    hub: bool = False
    open_sizes: bool = False

    def build(self, regime: Regime, seed: int, *, backward: bool = False) -> Subject:
        """The model and its inputs."""
        torch.manual_seed(seed)
        body, held = self.make(regime)
        generator = torch.Generator().manual_seed(1000 + seed)
        if self.tokens:
            x = torch.randint(0, _TOKENS, self.shape, generator=generator)
        else:
            x = float_input(regime, self.shape, generator).requires_grad_(backward and not self.writes)
        mask = torch.arange(WIDTH) % 5 == 1
        tokens = torch.randint(0, 1000, (4, 128), generator=generator)
        call, modules = _with_tail(body, held, Tail(regime))
        for module in modules:
            module.train(self.training)
        return Subject(call, (x, mask, tokens), modules)

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """What must be on while it is compiled."""
        context: AbstractContextManager[None] = sizes("open") if self.open_sizes else nullcontext()
        with context:
            yield


class Zoo(nn.Module):
    """A body and the tail of its regime; what else the body gives comes behind."""

    def __init__(self, body: nn.Module, tail: Tail) -> None:
        super().__init__()
        self.body = body
        self.tail = tail

    def forward(self, x: Tensor, mask: Tensor, tokens: Tensor) -> Any:
        """The result as the regime leaves it."""
        made = self.body(x)
        if isinstance(made, tuple):
            return self.tail(made[0], mask, tokens), *made[1:]
        return self.tail(made, mask, tokens)


def _with_tail(
    body: Callable[..., Any], held: list[nn.Module], tail: Tail
) -> tuple[Callable[..., Any], tuple[nn.Module, ...]]:
    if isinstance(body, nn.Module):
        zoo = Zoo(body, tail)
        return zoo, (zoo,)

    def closed(x: Tensor, mask: Tensor, tokens: Tensor) -> Any:
        return tail(body(x), mask, tokens)

    return closed, (*held, tail)


def _plain(kind: type[nn.Module], shape: tuple[int, ...], **flags: bool) -> ModelEntry:
    return ModelEntry(lambda _: (kind(), []), shape, lambda: sites_of(kind), **flags)


def _masked(kind: Callable[[float], nn.Module], shape: tuple[int, ...], **flags: bool) -> ModelEntry:
    return ModelEntry(lambda regime: (kind(regime.masked), []), shape, lambda: sites_of(kind), **flags)


class _Hidden(nn.Module):
    """One of the library's models; its hidden states alone."""

    def __init__(self, model: nn.Module, pixels: bool = False) -> None:
        super().__init__()
        self.model = model
        self.pixels = pixels

    def forward(self, x: Tensor) -> Tensor:
        made = self.model(x) if self.pixels else self.model(x, use_cache=False)
        return made.last_hidden_state  # type: ignore[no-any-return]


def _hub_gpt2(_: Regime) -> tuple[nn.Module, list[nn.Module]]:
    library = transformers()
    config = library.GPT2Config(
        n_layer=2, n_embd=WIDTH, n_head=2, vocab_size=_TOKENS, n_positions=16, bos_token_id=0, eos_token_id=0
    )
    config._attn_implementation = "eager"
    return _Hidden(library.GPT2Model(config).eval()), []


def _hub_llama(_: Regime) -> tuple[nn.Module, list[nn.Module]]:
    library = transformers()
    config = library.LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=_TOKENS,
        max_position_embeddings=32,
    )
    config._attn_implementation = "eager"
    return _Hidden(library.LlamaModel(config).eval()), []


def _hub_vit(_: Regime) -> tuple[nn.Module, list[nn.Module]]:
    library = transformers()
    config = library.ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=48,
        image_size=8,
        patch_size=4,
    )
    config._attn_implementation = "eager"
    return _Hidden(library.ViTModel(config, add_pooling_layer=False).eval(), pixels=True), []


def _hub_sites(name: str) -> Sites:
    transformers()
    import transformers.activations as activations
    import transformers.models.gpt2.modeling_gpt2 as gpt2
    import transformers.models.llama.modeling_llama as llama
    import transformers.models.vit.modeling_vit as vit

    softmax = "nn.functional.softmax(attn_weights"
    if name == "gpt2":
        return {"tanh": lines_with(activations, "torch.tanh("), "softmax": lines_with(gpt2, softmax)}
    if name == "llama":
        return {
            "rsqrt": lines_with(llama, "torch.rsqrt("),
            "softmax": lines_with(llama, softmax),
            "silu": lines_with(activations, "functional.silu(input)"),
        }
    return {"softmax": lines_with(vit, softmax), "gelu": lines_with(activations, "self.act(input)")}


MODELS: dict[str, ModelEntry] = {
    "mlp": _plain(models.Mlp, (8, 16)),
    "conv-bn": _plain(models.ConvBn, (4, 3, 10, 10), training=True, writes=True),
    "gru": _plain(models.Gru, (8, 3, 16)),
    "attention": _masked(models.Attention, (2, 6, 16)),
    "gpt2": _masked(models.Gpt2, (2, 8), tokens=True),
    "llama": _masked(models.Llama, (2, 8), tokens=True),
    "vit": _masked(models.Vit, (2, 3, 8, 8)),
    "graph-break": _plain(models.GraphBreak, (8, 16), one_graph=False),
    "dynamic": _plain(models.Dynamic, (7, 16), open_sizes=True),
    "in-place": _plain(models.InPlace, (8, 16), writes=True),
    "autocast": _plain(models.Autocast, (8, 16)),
    "twin": _plain(models.Twin, (8, 16)),
    "closure": ModelEntry(
        lambda _: models.closure(), (8, 16), lambda: sites_of(models.closure), training=True, writes=True
    ),
    "hub-gpt2": ModelEntry(_hub_gpt2, (2, 8), lambda: _hub_sites("gpt2"), tokens=True, hub=True),
    "hub-llama": ModelEntry(_hub_llama, (2, 8), lambda: _hub_sites("llama"), tokens=True, hub=True),
    "hub-vit": ModelEntry(_hub_vit, (2, 3, 8, 8), lambda: _hub_sites("vit"), hub=True),
}
"""Every model by name; those of ``hub-…`` are the library's own classes, with random weights."""

TAIL_SITES = sites_of(Tail)


def places(model: str, op: str) -> frozenset[tuple[str, int]]:
    """The lines of a model, and of its tail, that have an op."""
    own = MODELS[model].sites()
    found = TAIL_SITES.get(op, frozenset())
    return found.union(*(own.get(spelling, frozenset()) for spelling in (op, f"({op})", f"<{op}>")))


def regime(name: str) -> Regime:
    """The regime of that name."""
    return REGIMES[name]
