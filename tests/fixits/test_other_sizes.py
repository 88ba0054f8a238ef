"""``fixed(model, …)`` called with other inputs than it was traced with; and what must never be returned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo.config as dynamo_config
from torch import Tensor, nn

from inductor_debug_jupyter import fixed
from inductor_debug_jupyter.pipeline.errors import RewriteError
from inductor_debug_jupyter.pipeline.fixits import padded_ops
from inductor_debug_jupyter.pipeline.fixits.backend import RewritingBackend
from inductor_debug_jupyter.pipeline.fixits.original import Original
from inductor_debug_jupyter.pipeline.fixits.padded import PaddedCall, tensor_of, wrapped
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
PADS = {30: 64, 50: 64}


def mlp() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(30, 50), nn.ReLU(), nn.Linear(50, 7))


def close(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_batch_of_another_size_keeps_its_rows() -> None:
    net = mlp()
    other = fixed(net, pad=PADS)
    for batch in (8, 5, 7, 3, 8, 0, 1, 30):
        x = torch.randn(batch, 30)
        close(other(x), net(x))


def test_a_sequence_of_another_length_keeps_its_end() -> None:
    net = nn.Conv1d(3, 10, 3, padding=1)
    other = fixed(net, pad={3: 64, 10: 64})
    for length in (16, 20, 24):
        x = torch.randn(2, 3, length)
        close(other(x), net(x))


def test_torch_does_not_stop_rewriting_after_some_recompiles() -> None:
    given: list[torch.fx.GraphModule] = []

    def chip(graph_module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        given.append(graph_module)
        return graph_module.forward

    net = mlp()
    other = fixed(net, pad=PADS, backend=chip)
    with dynamo_config.patch(recompile_limit=2, accumulated_recompile_limit=3):
        for batch in range(1, 7):
            x = torch.randn(batch, 30)
            close(other(x), net(x))
    assert len(given) == 6, "beyond its limits torch would have run the original"


@pytest.mark.parametrize("dynamic", [True, None])
def test_where_sizes_are_left_open_each_gets_its_own_program(dynamic: bool | None) -> None:
    net = mlp()
    made = torch.compile(net, backend=RewritingBackend(Rewrite(pads=PADS)), dynamic=dynamic)
    for batch in (8, 5, 7, 30, 3, 5):
        x = torch.randn(batch, 30, requires_grad=True)
        (found,) = torch.autograd.grad(made(x).cos().sum(), x)
        (expected,) = torch.autograd.grad(net(x).cos().sum(), x)
        close(found, expected)
        with torch.no_grad():
            close(made(x), net(x))


def test_dimensions_that_are_marked_as_dynamic() -> None:
    net = mlp()
    other = fixed(net, pad=PADS)
    for batch in (3, 5, 9):
        x = torch.randn(batch, 30)
        torch._dynamo.mark_dynamic(x, 0)
        close(other(x), net(x))


def test_several_threads() -> None:
    net = mlp()
    other = fixed(net, pad=PADS)
    failures: list[BaseException] = []

    def work(batch: int) -> None:
        try:
            for size in (batch, batch + 1, batch):
                x = torch.randn(size, 30)
                close(other(x), net(x))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(batch,)) for batch in (2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


# What must never be returned -----------------------------------------------------------------------------------------


def wrong_linear(call: PaddedCall) -> Any:
    """Loses a row."""
    right = padded_ops._linear(call)
    rows, columns = call.made
    return wrapped(tensor_of(right), (rows - 1, columns), zero=False)


def test_a_wrong_padding_rule_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(padded_ops._HANDLERS, "linear", wrong_linear)
    with pytest.raises(RewriteError) as caught:
        fixed(mlp(), pad=PADS)(torch.randn(5, 30))
    assert str(caught.value) == "linear of the rewritten graph stands for [4, 50], the original's is [5, 50]"


def test_no_padding_rule_at_all_that_works_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(call: PaddedCall) -> Any:
        raise ValueError("out of paper")

    monkeypatch.setitem(padded_ops._HANDLERS, "linear", broken)
    with pytest.raises(RewriteError, match="cannot be rewritten for these inputs: out of paper"):
        fixed(mlp(), pad=PADS)(torch.randn(5, 30))
    with dynamo_config.patch(suppress_errors=True), pytest.raises(RewriteError):
        fixed(mlp(), pad=PADS)(torch.randn(5, 30))


def lost_row(tensor: Tensor) -> Tensor:
    return tensor[:-1]


def other_dtype(tensor: Tensor) -> Tensor:
    return tensor.double()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lost_row, "result 0 of the rewritten graph is [4, 7] torch.float32, the original's is [5, 7] torch.float32"),
        (
            other_dtype,
            "result 0 of the rewritten graph is [5, 7] torch.float64, the original's is [5, 7] torch.float32",
        ),
    ],
)
def test_every_call_is_checked(fault: Callable[[Tensor], Tensor], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is right when it is made and wrong later."""
    other, x = fixed(mlp(), pad=PADS), torch.randn(5, 30)
    other(x)
    laid_out = Original.laid_out
    monkeypatch.setattr(Original, "laid_out", lambda *args: [fault(each) for each in laid_out(*args)])
    with pytest.raises(RewriteError) as caught:
        other(x)
    assert str(caught.value).startswith(said)


def test_a_program_runs_for_no_other_inputs() -> None:
    """Whatever torch's guards let through (here: nobody asks them)."""
    programs: list[Any] = []

    class Keeping(RewritingBackend):
        def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Any) -> Any:
            programs.append(super().__call__(graph_module, example_inputs))
            return programs[-1]

    def function(x: Tensor) -> Tensor:
        return torch.relu(x)

    torch.compile(function, backend=Keeping(Rewrite(pads=PADS)), dynamic=False)(torch.ones(5, 30))
    (relu,) = programs[0](torch.ones(5, 30))
    close(relu, torch.ones(5, 30))
    for other in (
        torch.ones(7, 30),
        torch.ones(30, 5).T,
        torch.ones(5, 30).double(),
        torch.ones(5, 30).requires_grad_(),
    ):
        with pytest.raises(RewriteError, match=r"x is \[.*and this graph was made for \[5, 30\]"):
            programs[0](other)


# Writes, aliases and random numbers ----------------------------------------------------------------------------------


def test_a_write_into_an_input_has_the_gradients_of_the_original() -> None:
    layer = nn.Linear(30, 30).double()

    def function(x: Tensor) -> Tensor:
        x.mul_(2)
        x[:, 0] = 3
        return layer(x)

    def gradients(call: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        start = torch.linspace(-1, 1, 120, dtype=torch.float64).view(4, 30).requires_grad_()
        x = start * 1.5
        (call(x).sum() + (x**2).sum()).backward()
        assert start.grad is not None
        return start.grad, x.detach()

    expected = gradients(function)
    close(gradients(fixed(function, pad={30: 32})), expected)
    close(gradients(fixed(function, pad={30: 32}, cast={"float64": "float32"})), expected)


def test_results_alias_what_they_alias_in_the_original() -> None:
    layer = nn.Linear(30, 30)

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = layer(x)
        return y, y[1], y.view(-1)[:7], x[:, :5], x.t()

    for options in ({"pad": {30: 64}}, {"pad": {30: 64}, "cast": {"float32": "bfloat16"}}):
        x = torch.randn(4, 30)
        with torch.no_grad():
            y, row, begin, part, turned = fixed(function, **options)(x)
        y.fill_(5.0)
        assert bool((row == 5).all() and (begin == 5).all())
        part.fill_(7.0)
        assert bool((x[:, :5] == 7).all())
        turned[0, 0] = 9.0
        assert x[0, 0] == 9
        assert y.is_contiguous()


def test_inputs_that_overlap_what_is_written_are_refused() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return y * 2

    x = torch.randn(4, 30)
    before = x.clone()
    with pytest.raises(RewriteError, match="share memory and the graph writes into it"):
        fixed(function, cast={"float32": "bfloat16"})(x, x[:2])
    close(x, before)


def test_bits_are_not_cast() -> None:
    def function(x: Tensor) -> Tensor:
        return x.view(torch.int32) & 3

    x = torch.randn(4, 30)
    close(fixed(function, pad={30: 64})(x), function(x))
    with pytest.raises(RewriteError, match="looked at bit by bit"):
        fixed(function, cast={"float32": "bfloat16"})(x)


def test_running_statistics_of_every_kind() -> None:
    for norm in (
        nn.BatchNorm1d(10, momentum=None),
        nn.BatchNorm1d(10, affine=False),
        nn.BatchNorm1d(10, track_running_stats=False),
        nn.InstanceNorm1d(10, affine=True, track_running_stats=True),
    ):
        torch.manual_seed(0)
        net, twin = (nn.Sequential(nn.Conv1d(3, 10, 1), norm_) for norm_ in (norm, type(norm)(**_options(norm))))
        twin.load_state_dict(net.state_dict())
        other = fixed(net, pad={10: 16})
        for length in (4, 10):
            x = torch.randn(2, 3, length)
            close(other(x), twin(x))
            close(dict(net.named_buffers()), dict(twin.named_buffers()))


def _options(norm: Any) -> dict[str, Any]:
    names = ("num_features", "momentum", "affine", "track_running_stats")
    return {name: getattr(norm, name) for name in names}


def test_an_infinite_mask_on_padded_rows_leaves_the_gradients_finite() -> None:
    def function(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        scores = torch.where(mask, q @ k.transpose(-1, -2), torch.tensor(float("-inf")))
        return scores.softmax(-1) @ k

    q, k = (torch.randn(2, 6, 6, requires_grad=True) for _ in range(2))
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    found = torch.autograd.grad(fixed(function, pad={6: 8})(q, k, mask).cos().sum(), (q, k))
    close(found, torch.autograd.grad(function(q, k, mask).cos().sum(), (q, k)))


def test_padding_does_not_overflow() -> None:
    layer = nn.Linear(30, 30)

    def function(x: Tensor, shift: Tensor) -> Tensor:
        return layer(torch.exp(layer(x) - 100 + shift - 50))

    x, shift = torch.randn(4, 30), torch.full((4, 1), 150.0, requires_grad=True)
    (found,) = torch.autograd.grad(fixed(function, pad={30: 64})(x, shift).cos().sum(), shift)
    close(found, torch.autograd.grad(function(x, shift).cos().sum(), shift)[0])
