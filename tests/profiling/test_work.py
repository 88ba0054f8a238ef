"""Operations and bytes of ops, beside torch's own counter of operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.profiling.work import flops_of, is_free, is_product, work_of
from inductor_debug_jupyter.pipeline.records import GraphRecord

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def graph_of(function: Callable[..., Any], *args: torch.Tensor, stage: str = "forward") -> GraphRecord:
    class Model(nn.Module):
        def forward(self, *args: torch.Tensor) -> Any:
            return function(*args)

    with capture(eager=True, lower="aot") as session:
        Model()(*args)
    graph = session.record.captures[0].graph(stage)
    assert graph is not None
    return graph


PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "mm": (lambda a, b: a @ b, (torch.randn(6, 5), torch.randn(5, 7))),
    "a matrix and itself": (lambda a: a @ a, (torch.randn(6, 6),)),
    "linear": (F.linear, (torch.randn(3, 6, 5), torch.randn(7, 5), torch.randn(7))),
    "bmm": (torch.bmm, (torch.randn(2, 6, 5), torch.randn(2, 5, 7))),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), (torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3))),
    "grouped": (lambda x, w: F.conv2d(x, w, groups=2), (torch.randn(2, 4, 8, 8), torch.randn(6, 2, 3, 3))),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w), (torch.randn(2, 3, 8, 8), torch.randn(3, 5, 3, 3))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_the_operations_that_torch_counts(name: str) -> None:
    function, args = PRODUCTS[name]
    graph = graph_of(function, *args)
    ours = sum(flops_of(node, graph) or 0 for node in graph.nodes if is_product(node))
    with FlopCounterMode(display=False) as counter:
        function(*args)
    assert ours == counter.get_total_flops() > 0


def test_attention_has_the_operations_of_its_two_products() -> None:
    """torch's counter does not count the CPU's own attention."""
    graph = graph_of(F.scaled_dot_product_attention, *(torch.randn(2, 4, 8, 16) for _ in range(3)))
    assert sum(flops_of(node, graph) or 0 for node in graph.nodes if is_product(node)) == 2 * (2 * 2 * 4 * 8 * 8 * 16)


@pytest.mark.parametrize("shape", [(2, 3, 8, 8), (1, 4, 5, 5)])
def test_the_gradients_of_a_convolution_are_twice_its_forward(shape: tuple[int, ...]) -> None:
    model, x = nn.Conv2d(shape[1], 6, 3), torch.randn(shape, requires_grad=True)
    with capture(eager=True, lower="aot") as session:
        model(x).sum().backward()
    backward = session.record.captures[0].graph("backward")
    assert backward is not None
    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    forward_flops = 2 * model(x).numel() * shape[1] * 9
    ours = sum(flops_of(node, backward) or 0 for node in backward.nodes if is_product(node))
    assert ours == counter.get_total_flops() - forward_flops == 2 * forward_flops


def test_views_are_free_and_a_fused_group_reads_and_writes_what_passes_its_border() -> None:
    graph = graph_of(lambda x: (x.t() * 2 + 1).relu(), torch.randn(8, 16))
    assert [node.target for node in graph.calls if is_free(node, graph)] == ["aten.t.default"]
    names = [node.name for node in graph.calls]
    whole = work_of(names, graph)
    assert whole is not None
    assert (whole.read, whole.written, whole.flops) == (512, 512, 3 * 128)
    first = work_of(names[:2], graph)
    assert first is not None
    assert (first.read, first.written, first.is_product) == (512, 512, False)


def test_rows_that_are_picked_count_and_not_the_table() -> None:
    graph = graph_of(F.embedding, torch.randint(0, 1000, (4,)), torch.randn(1000, 16))
    (node,) = [node for node in graph.calls if not is_free(node, graph)]
    work = work_of([node.name], graph)
    assert work is not None
    assert work.read <= 4 * 8 + 4 * 16 * 4
    assert work.flops == 64


def test_an_expanded_tensor_is_read_once() -> None:
    graph = graph_of(lambda x, y: x.expand(64, 8) + y, torch.randn(1, 8), torch.randn(64, 8))
    work = work_of([node.name for node in graph.calls], graph)
    assert work is not None
    assert work.read == 32 + 64 * 8 * 4


def test_symbolic_sizes_are_those_of_the_capture() -> None:
    compiled = torch.compile(nn.Linear(16, 8), dynamic=True, backend="aot_eager")
    with capture() as session:
        compiled(torch.randn(5, 16))
    graph = session.record.captures[0].graph("forward")
    assert graph is not None
    assert graph.symbols
    assert sum(flops_of(node, graph) or 0 for node in graph.nodes if is_product(node)) == 2 * 5 * 16 * 8
