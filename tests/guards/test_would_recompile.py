"""Would it recompile? Asked first, then tried: the answer is what happens."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import GuardInspector, capture
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.session import DebugSession

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

LEVEL = 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = 2
        self.drop = nn.Dropout(0.0)

    def forward(self, x, n, flag=True, *rest, mode="up", bias=None, **more):
        y = self.drop(x) * n * self.gain + LEVEL
        if flag:
            y = y + 1
        for each in rest:
            y = y + each.sum()
        if mode == "up":
            y = y.relu()
        if bias is not None:
            y = y + bias.sum()
        for name in more:
            y = y - more[name].sum()
        return y


@dataclass(frozen=True)
class Inputs:
    """One call, and the state around it."""

    shape: tuple[int, ...] = (4, 3)
    dtype: torch.dtype = torch.float32
    requires_grad: bool = False
    transposed: bool = False
    n: Any = 2
    flag: bool = True
    rest: int = 0
    mode: str = "up"
    bias: bool = False
    more: tuple[str, ...] = ()
    gain: int = 2
    level: int = 1
    training: bool = True
    grad: bool = True

    def arguments(self):
        shape = self.shape[::-1] if self.transposed else self.shape
        x = torch.ones(shape, dtype=self.dtype)
        x = (x.t() if self.transposed else x).requires_grad_(self.requires_grad)
        bias = torch.ones(3) if self.bias else None
        kwargs = {"mode": self.mode, "bias": bias, **{name: torch.ones(2) for name in self.more}}
        return (x, self.n, self.flag, *(torch.ones(2) for _ in range(self.rest))), kwargs


CHANGES = {
    "shape": lambda r: (r.randint(0, 5), r.randint(1, 4)),
    "dtype": lambda r: r.choice([torch.float32, torch.float64]),
    "requires_grad": lambda r: r.random() < 0.5,
    "transposed": lambda r: r.random() < 0.5,
    "n": lambda r: r.choice([0, 1, 2, 3, 7, 1.5, 2.5, True]),
    "flag": lambda r: r.random() < 0.5,
    "rest": lambda r: r.randint(0, 2),
    "mode": lambda r: r.choice(["up", "down"]),
    "bias": lambda r: r.random() < 0.5,
    "more": lambda r: r.choice([(), ("a",), ("a", "b"), ("b", "a")]),
    "gain": lambda r: r.randint(1, 3),
    "level": lambda r: r.randint(1, 3),
    "training": lambda r: r.random() < 0.5,
    "grad": lambda r: r.random() < 0.5,
}


def entries(function) -> int:
    return len(torch._dynamo.eval_frame._get_cache_entries_for_region(function.__code__, -1))


def set_state(net: Model, inputs: Inputs) -> None:
    global LEVEL
    LEVEL, net.gain = inputs.level, inputs.gain
    net.train(inputs.training)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))])
def test_two_hundred_random_changes_agree_with_what_then_happens(seed):
    random_ = random.Random(seed)
    net, now = Model(), Inputs()
    compiled = torch.compile(net, backend="eager")
    said = {"yes": 0, "no": 0}
    with torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=1000):
        with capture(lower="dynamo") as session:
            args, kwargs = now.arguments()
            compiled(*args, **kwargs)
        for _ in range(50):
            name = random_.choice(list(CHANGES))
            now = replace(now, **{name: CHANGES[name](random_)})
            set_state(net, now)
            args, kwargs = now.arguments()
            before = entries(Model.forward)
            with torch.set_grad_enabled(now.grad):
                answer = session.would_recompile(*args, **kwargs)
                assert entries(Model.forward) == before, "asking compiled something"
                compiled(*args, **kwargs)
            happened = "yes" if entries(Model.forward) > before else "no"
            assert answer.answer == happened, (name, now, str(answer))
            said[answer.answer] += 1
            if answer.answer == "yes":
                assert answer.check
                assert answer.hint
                assert answer.old != answer.new
    assert min(said.values()) >= 5


@pytest.mark.parametrize("seed", range(3))
def test_an_inspection_answers_for_its_own_graphs(seed):
    random_ = random.Random(100 + seed)
    net, first = Model(), Inputs()
    set_state(net, first)
    inspector = GuardInspector(net)
    args, kwargs = first.arguments()
    for _ in range(8):
        inspector.inspect(*args, refresh=True, **kwargs)
        name = random_.choice(["shape", "dtype", "requires_grad", "n", "flag", "rest", "mode", "bias", "more"])
        changed = replace(first, **{name: CHANGES[name](random_)})
        new_args, new_kwargs = changed.arguments()
        answer = inspector.would_recompile(*new_args, **new_kwargs)
        compiled = torch.compile(Model(), backend="eager")
        compiled(*args, **kwargs)
        before = entries(Model.forward)
        compiled(*new_args, **new_kwargs)
        assert answer.answer == ("yes" if entries(Model.forward) > before else "no"), (name, changed, str(answer))
        torch._dynamo.reset()


def test_the_answer_names_guard_values_line_and_hint():
    @torch.compile(backend="eager")
    def scale(x, n):
        return x * n

    with capture() as session:
        scale(torch.ones(4, 3), 2)
    fits = session.would_recompile(torch.zeros(4, 3), 2)
    assert (fits.answer, fits.reason) == ("no", f"all guards of {session.captures[0].compile_id} hold")
    answer = session.would_recompile(torch.ones(7, 3), n=2)
    assert (answer.answer, answer.varies, answer.old, answer.new) == ("yes", "x.shape[0]", "4", "7")
    assert "mark_dynamic(x, 0)" in answer.hint
    number = session.would_recompile(torch.ones(4, 3), 3)
    assert number.check == "L['n'] == 2"
    assert number.source.text.strip() == "return x * n"
    assert str(number).startswith("yes: n was 2, now 3 (test_would_recompile.py, line")
    with pytest.raises(UsageError, match="compare"):
        bool(number)


def test_the_model_does_not_run_and_nothing_is_compiled(capsys):
    runs = []

    class Noisy(nn.Module):
        def forward(self, x):
            runs.append(1)
            return x + 1

    net = Noisy()
    compiled = torch.compile(net, backend="eager")
    with capture() as session:
        compiled(torch.ones(2))
    before = len(runs)
    for size in range(2, 9):
        session.would_recompile(torch.ones(size))
    assert len(runs) == before


def test_after_a_graph_break_it_is_unknown_unless_the_first_part_already_fails(capsys):
    @torch.compile(backend="eager")
    def split(x, n):
        y = x * n
        print("between")
        return y + 1

    with capture() as session:
        split(torch.ones(4), 2)
    same = session.would_recompile(torch.ones(4), 2)
    assert same.answer == "unknown"
    assert "graph break" in same.reason
    assert session.would_recompile(torch.ones(4), 3).answer == "yes"


def untraced(x):
    torch._dynamo.graph_break()
    return x * 2


def test_a_break_at_the_very_end_is_one_too():
    def last(x):
        y = x + 1
        return untraced(y)

    compiled = torch.compile(last, backend="eager")
    compiled(torch.ones(3))  # before the capture: nobody watches this compile
    with capture() as session:
        compiled(torch.ones(3))
    assert session.would_recompile(torch.ones(3)).answer == "unknown"
    assert session.would_recompile(torch.ones(5)).answer == "yes"


def test_what_was_compiled_before_counts_and_what_the_capture_compiled_for_itself_does_not():
    @torch.compile(backend="eager")
    def double(x):
        return x * 2

    double(torch.ones(4))
    with capture() as session:
        double(torch.ones(4))
        double(torch.ones(7))  # in the capture's own region: the user's cache never sees it
    assert session.would_recompile(torch.ones(4)).answer == "no"
    before = entries(double._torchdynamo_orig_callable)
    assert session.would_recompile(torch.ones(7)).answer == "yes"
    double(torch.ones(7))
    assert entries(double._torchdynamo_orig_callable) == before + 1
    assert session.would_recompile(torch.ones(9)).answer == "no"  # the dimension is open now


def test_at_the_limit_torch_compiles_no_more():
    @torch.compile(backend="eager")
    def named(x, name):
        return x + len(name)

    with torch._dynamo.config.patch(recompile_limit=2), capture() as session:
        for name in ("a", "bb"):
            named(torch.ones(2), name)
        answer = session.would_recompile(torch.ones(2), "ccc")
        before = entries(named._torchdynamo_orig_callable)
        named(torch.ones(2), "ccc")
        assert entries(named._torchdynamo_orig_callable) == before
    assert answer.answer == "no"
    assert "recompile_limit is reached" in answer.reason


def test_after_a_reset_the_next_call_compiles():
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with capture() as session:
        compiled(torch.ones(2))
    torch._dynamo.reset()
    answer = session.would_recompile(torch.ones(2))
    assert (answer.answer, "not in torch's cache any more" in answer.reason) == ("yes", True)


@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 3), lambda: Model(), lambda: nn.Sequential(nn.Linear(3, 3))])
@pytest.mark.parametrize("plain", [True, False])
def test_modules_plain_and_compiled(make, plain):
    net = make()
    call = net if plain else torch.compile(net, backend="eager")
    extra = (2,) if isinstance(net, Model) else ()
    with capture(eager=True, lower="dynamo") as session:
        call(torch.ones(2, 3), *extra)
    assert session.would_recompile(torch.zeros(2, 3), *extra).answer == "no"
    assert session.would_recompile(torch.ones(5, 3), *extra).answer == "yes"
    assert session.would_recompile(torch.ones(2, 3).double(), *extra).varies.endswith(".dtype")


def test_hooks_before_a_modules_forward_make_it_unknown():
    net = Model()
    net.register_forward_pre_hook(lambda module, args: (args[0] + 1, *args[1:]))
    compiled = torch.compile(net, backend="eager")
    with capture() as session:
        compiled(torch.ones(2, 3), 2)
    answer = session.would_recompile(torch.ones(2, 3), 2)
    assert (answer.answer, "hooks of Model" in answer.reason) == ("unknown", True)


def test_methods_and_functions_with_closures_and_decorators():
    import functools

    def shouting(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    factor = 3

    class Thing:
        @shouting
        def step(self, x, n=2):
            return x * n * factor

    thing = Thing()
    compiled = torch.compile(thing.step, backend="eager")
    with capture() as session:
        compiled(torch.ones(2))
    assert session.would_recompile(torch.ones(2)).answer == "no"
    assert session.would_recompile(torch.ones(2), n=3).answer == "yes"
    factor = 4
    answer = session.would_recompile(torch.ones(2))
    assert (answer.answer, answer.old, answer.new) == ("yes", "3", "4")


def test_several_functions_are_told_apart():
    def one(x):
        return x + 1

    def two(x, n):
        return x * n

    first, second = torch.compile(one, backend="eager"), torch.compile(two, backend="eager")
    with capture() as session:
        first(torch.ones(2))
        second(torch.ones(2), 3)
    with pytest.raises(UsageError, match=r"several functions were called \(.*one, .*two\): say which"):
        session.would_recompile(torch.ones(2))
    for target in ("one", first, one):
        assert session.would_recompile_of(target, torch.ones(2)).answer == "no"
    assert session.would_recompile_of(second, torch.ones(2), 4).answer == "yes"
    linears = nn.Linear(3, 3), nn.Linear(3, 5)
    with capture(eager=True, lower="dynamo") as plain:
        for linear in linears:
            linear(torch.ones(2, 3))
    with pytest.raises(UsageError, match="2 of the called functions are meant by 'Linear': pass the one itself"):
        plain.would_recompile_of("Linear", torch.ones(2, 3))
    assert plain.would_recompile_of(linears[0], torch.ones(2, 3)).answer == "no"
    assert plain.what_if.functions == ("Linear.forward", "Linear.forward (2)")
    assert plain.what_if.ask({}, function="Linear.forward (2)").answer == "no"
    with pytest.raises(NotFoundError, match="three was not called"):
        session.would_recompile_of("three")
    with pytest.raises(UsageError, match="does not take these inputs: missing a required argument: 'n'"):
        session.would_recompile_of(two, torch.ones(2))


def test_a_model_that_is_gone_is_unknown_and_a_session_keeps_none_alive():
    import gc
    import weakref

    net = Model()
    compiled = torch.compile(net, backend="eager")
    with capture() as session:
        compiled(torch.ones(2, 3), 2)
    alive = weakref.ref(net)
    del net, compiled
    gc.collect()
    assert alive() is None
    answer = session.would_recompile(torch.ones(2, 3), 2)
    assert (answer.answer, "is gone" in answer.reason) == ("unknown", True)


def test_a_session_without_live_guards_says_so(tmp_path):
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with capture() as session:
        compiled(torch.ones(2))
    loaded = DebugSession.load(session.save(tmp_path / "s.json"))
    with pytest.raises(NotFoundError, match="no guards to ask"):
        loaded.would_recompile(torch.ones(2))
    with pytest.raises(UsageError, match="nothing to ask yet"):
        GuardInspector(lambda x: x).would_recompile(torch.ones(2))


def test_inspections_in_several_threads_do_not_meet():
    def work(at, told):
        def scale(x, n):
            return x * n

        inspector = GuardInspector(scale)
        report = inspector.inspect_calls((torch.ones(2), at), (torch.ones(2), at + 10))
        told[at] = (
            report.graph_count,
            [(each.old, each.new) for each in report.recompiles],
            inspector.would_recompile(torch.ones(2).double(), at).answer,
        )

    told: dict[int, Any] = {}
    threads = [threading.Thread(target=work, args=(at, told)) for at in range(2, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == {at: (2, [(str(at), str(at + 10))], "yes") for at in range(2, 6)}
