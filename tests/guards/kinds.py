"""Every kind of recompile on the CPU: what is compiled, the call that compiles again, and what the hint says to do.

Each :class:`Kind` is a small program. ``follow`` is the same program with the hint followed: it makes calls with the
same values, and nothing compiles again. Where it is None, the hint must say that the recompile can't be removed.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

X = torch.arange(6.0).reshape(2, 3)


@dataclass(frozen=True)
class Kind:
    name: str
    """As the advice calls it."""
    program: Callable[[], list[Callable[[], Any]]]
    """Makes the compiled function, and answers the calls: the second one compiles again."""
    varies: str
    old: str
    new: str
    line: str
    """Where the guard comes from."""
    follow: Callable[[], list[Callable[[], Any]]] | None = None


KINDS: list[Kind] = []


def kind(name: str, varies: str, old: str, new: str, line: str) -> Callable[[Any], Any]:
    def add(program: Any) -> Any:
        KINDS.append(Kind(name, program, varies, old, new, line, getattr(program, "follow", None)))
        return program

    return add


def followed_by(follow: Callable[[], list[Callable[[], Any]]]) -> Callable[[Any], Any]:
    def mark(program: Any) -> Any:
        program.follow = follow
        return program

    return mark


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="eager")


def double(x):
    return x * 2


def calls(function: Any, *inputs: tuple[Any, ...]) -> list[Callable[[], Any]]:
    return [lambda each=each: function(*each) for each in inputs]


def twice(call: Callable[[Any], Any]) -> list[Callable[[], Any]]:
    f = compiled(double)
    return [lambda: call(f)] * 2


def marked(tensor, dim):
    torch._dynamo.mark_dynamic(tensor, dim)
    return tensor


def sized_open():
    f = compiled(double)
    return calls(f, (marked(torch.ones(4, 3), 0),), (marked(torch.ones(7, 3), 0),), (marked(torch.ones(9, 3), 0),))


@kind("size", "x.shape[0]", "4", "7", "return x * 2")
@followed_by(sized_open)
def size():
    return calls(compiled(double), (torch.ones(4, 3),), (torch.ones(7, 3),))


@kind("size 0 or 1", "x.shape[0]", "4", "1", "return x * 2")
def size_one():
    return calls(compiled(double), (torch.ones(4, 3),), (torch.ones(1, 3),))


def long_or_short(x):
    if x.shape[0] > 6:
        return x * 2
    return x - 1


@kind("size relation", "x.shape[0]", "2 <= L['x'].size()[0] <= 6", "9", "if x.shape[0] > 6:")
def size_relation():
    f = torch.compile(long_or_short, backend="eager", dynamic=True)
    return calls(f, (torch.ones(4, 3),), (torch.ones(9, 3),))


def odd_or_even(x):
    if x.shape[0] % 2:
        return x * 2
    return x - 1


@kind("size relation", "x.shape[0]", "L['x'].size()[0] % 2 == 0", "7", "if x.shape[0] % 2:")
def size_modulo():
    return calls(torch.compile(odd_or_even, backend="eager", dynamic=True), (torch.ones(4, 3),), (torch.ones(7, 3),))


def in_fours(x):
    if x.shape[0] // 4 == 2:
        return x * 2
    return x - 1


@kind("size relation", "x.shape[0]", "L['x'].size()[0] // 4 == 2", "13", "if x.shape[0] // 4 == 2:")
def size_division():
    return calls(torch.compile(in_fours, backend="eager", dynamic=True), (torch.ones(9, 3),), (torch.ones(13, 3),))


def longer(x, y):
    if x.shape[0] > y.shape[0]:
        return x * 2
    return y - 1


@kind("size relation", "x.shape[0] and y.shape[0]", "L['x'].size()[0] <= L['y'].size()[0]", "8 and 5",
      "if x.shape[0] > y.shape[0]:")  # fmt: skip
def sizes_compared():
    f = torch.compile(longer, backend="eager", dynamic=True)
    return calls(f, (torch.ones(4, 3), torch.ones(5, 3)), (torch.ones(8, 3), torch.ones(5, 3)))


def large(x):
    if x.shape[0] * x.shape[1] > 20:
        return x * 2
    return x - 1


@kind("size relation", "x.shape[1] and x.shape[0]", "L['x'].size()[1] * L['x'].size()[0] <= 20", "5 and 8",
      "if x.shape[0] * x.shape[1] > 20:")  # fmt: skip
def sizes_multiplied():
    f = torch.compile(large, backend="eager", dynamic=True)
    return calls(f, (torch.ones(4, 3),), (torch.ones(8, 5),))


@kind("dtype", "x.dtype", "Float", "Double", "return x * 2")
@followed_by(lambda: calls(compiled(double), (X,), (X.double().to(torch.float32),)))
def dtype():
    return calls(compiled(double), (X,), (X.double(),))


@kind("rank", "x", "2", "1", "return x * 2")
@followed_by(lambda: calls(compiled(double), (X,), (torch.ones(3).unsqueeze(0).expand(2, 3).contiguous(),)))
def rank():
    return calls(compiled(double), (X,), (X[0],))


@kind("stride", "x.stride(0)", "3", "1", "return x * 2")
@followed_by(lambda: calls(compiled(double), (torch.ones(3, 3),), (torch.rand(3, 3).t().contiguous(),)))
def stride():
    return calls(compiled(double), (torch.ones(3, 3),), (torch.rand(3, 3).t(),))


@kind("requires_grad", "x.requires_grad", "False", "True", "return x * 2")
@followed_by(lambda: calls(compiled(double), (X,), (X.clone().requires_grad_().detach(),)))
def requires_grad():
    return calls(compiled(double), (X,), (X.clone().requires_grad_(),))


@kind("conjugate", "x", "nothing more", "Conjugate", "return x * 2")
@followed_by(
    lambda: calls(
        compiled(double),
        (torch.ones(2, dtype=torch.complex64),),
        (torch.ones(2, dtype=torch.complex64).conj().resolve_conj().resolve_neg(),),
    )
)
def conjugate():
    return calls(
        compiled(double), (torch.ones(2, dtype=torch.complex64),), (torch.ones(2, dtype=torch.complex64).conj(),)
    )


@kind("layout", "x", "CPU", "SparseCPU", "return x * 2")
@followed_by(lambda: calls(compiled(double), (torch.eye(3),), (torch.eye(3).to_sparse().to_dense(),)))
def layout():
    return calls(compiled(double), (torch.eye(3),), (torch.eye(3).to_sparse(),))


@kind("device", "x", "AutogradCPU, CPU", "AutogradMeta, Meta", "return x * 2")
@followed_by(lambda: calls(compiled(double), (X,), (X.to("cpu"),)))
def device():
    return calls(compiled(double), (X,), (X.to("meta"),))


def scale(x, n):
    return x * n


@kind("int", "n", "2", "3", "return x * n")
@followed_by(lambda: calls(compiled(scale), (X, torch.tensor(2)), (X, torch.tensor(3)), (X, torch.tensor(9))))
def number():
    return calls(compiled(scale), (X, 2), (X, 3))


@kind("float", "n", "1.5", "2.5", "return x * n")
@followed_by(lambda: calls(compiled(scale), (X, torch.tensor(1.5)), (X, torch.tensor(2.5))))
def floating():
    return calls(compiled(scale), (X, 1.5), (X, 2.5))


@kind("type", "n", "int", "float", "return x * n")
@followed_by(lambda: calls(torch.compile(scale, backend="eager", dynamic=True), (X, 2.0), (X, 2.5)))
def number_type():
    f = torch.compile(scale, backend="eager", dynamic=True)
    return calls(f, (X, 2), (X, 2.5))


def by_parity(x, n):
    if n % 2:
        return x + 1
    return x - 1


@kind("number relation", "n", "L['n'] % 2 == 0", "7", "if n % 2:")
def number_modulo():
    return calls(torch.compile(by_parity, backend="eager", dynamic=True), (X, 4), (X, 7))


def by_limit(x, n):
    if n > 5:
        return x + 1
    return x - 1


@kind("number relation", "n", "L['n'] <= 5", "7", "if n > 5:")
def number_compared():
    return calls(torch.compile(by_limit, backend="eager", dynamic=True), (X, 4), (X, 7))


def counted(x, steps):
    for i in steps:
        x = x + i
    return x


@kind("range", "steps.stop", "3", "4", "for i in steps:")
def range_stop():
    return calls(compiled(counted), (X, range(3)), (X, range(4)))


@kind("range", "steps.start", "0", "1", "for i in steps:")
def range_start():
    return calls(compiled(counted), (X, range(5)), (X, range(1, 5)))


@kind("range", "steps.step", "1", "2", "for i in steps:")
def range_step():
    return calls(compiled(counted), (X, range(0, 6, 1)), (X, range(0, 6, 2)))


def cut(x, part):
    return x[part] * 2


@kind("slice", "part.stop", "1", "2", "return x[part] * 2")
@followed_by(lambda: calls(compiled(cut), (X, slice(0, 2)), (X, slice(0, 2))))
def slice_stop():
    return calls(compiled(cut), (X, slice(0, 1)), (X, slice(0, 2)))


class Options:
    def __init__(self, factor):
        self.factor = factor


def by_option(x, options):
    return x * options.factor


@kind("attribute", "options.factor", "2", "3", "return x * options.factor")
@followed_by(lambda: calls(compiled(by_option), *((X, Options(torch.tensor(n))) for n in (2, 3, 9))))
def attribute_of_an_object():
    return calls(compiled(by_option), (X, Options(2)), (X, Options(3)))


Pair = collections.namedtuple("Pair", "factor other")


@kind("attribute", "options.factor", "2", "3", "return x * options.factor")
@followed_by(lambda: calls(compiled(by_option), *((X, Pair(torch.tensor(n), 1)) for n in (2, 3, 9))))
def attribute_of_a_named_tuple():
    return calls(compiled(by_option), (X, Pair(2, 1)), (X, Pair(3, 1)))


def looked_up_by_key(x, settings):
    return x * settings["factor"]


@kind("int", "settings['factor']", "2", "3", 'return x * settings["factor"]')
@followed_by(lambda: calls(compiled(looked_up_by_key), *((X, {"factor": torch.tensor(n)}) for n in (2, 3, 9))))
def number_in_a_dictionary():
    return calls(compiled(looked_up_by_key), (X, {"factor": 2}), (X, {"factor": 3}))


def first_of(x, numbers):
    return x * numbers[0]


@kind("float", "numbers[0]", "1.5", "2.5", "return x * numbers[0]")
@followed_by(lambda: calls(compiled(first_of), *((X, [torch.tensor(n)]) for n in (1.5, 2.5, 9.5))))
def number_in_a_list():
    return calls(compiled(first_of), (X, [1.5]), (X, [2.5]))


class Configured(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.settings = {"factor": factor}

    def forward(self, x):
        return x * self.settings["factor"]


def tensor_in_a_setting():
    net = Configured(torch.tensor(2))
    f = compiled(net)
    return [lambda: f(X), lambda: (net.settings["factor"].fill_(5), f(X))]


@kind("attribute", "self.settings['factor']", "2", "5", 'return x * self.settings["factor"]')
@followed_by(tensor_in_a_setting)
def number_in_a_setting_of_a_module():
    net = Configured(2)
    f = compiled(net)
    return [lambda: f(X), lambda: (net.settings.update(factor=5), f(X))]


def either(x, flag):
    if flag:
        return x + 1
    return x - 1


@kind("flag", "flag", "True", "False", "if flag:")
def flag():
    return calls(compiled(either), (X, True), (X, False))


def optional(x, bias=None):
    if bias is not None:
        x = x + bias
    return x * 2


@kind("None", "bias", "None", "float32[2, 3]", "if bias is not None:")
def nothing():
    return calls(compiled(optional), (X,), (X, X + 1))


@kind("None", "bias", "a tensor", "NoneType", "if bias is not None:")
def tensor_then_nothing():
    return calls(compiled(optional), (X, X + 1), (X, None))


class Marked(torch.Tensor):
    pass


@kind("type", "x", "a tensor", "Marked", "return x * 2")
@followed_by(lambda: calls(compiled(double), (X,), (X.as_subclass(Marked).as_subclass(torch.Tensor),)))
def tensor_subclass():
    return calls(compiled(double), (X,), (X.as_subclass(Marked),))


def in_mode(x, mode):
    return x + 1 if mode == "up" else x - 1


@kind("value", "mode", "'up'", "'down'", 'return x + 1 if mode == "up" else x - 1')
def word():
    return calls(compiled(in_mode), (X, "up"), (X, "down"))


class Side(enum.Enum):
    LEFT = 1
    RIGHT = 2


def on_side(x, side):
    return x + 1 if side is Side.LEFT else x - 1


@kind("constant", "side", "the Side seen before", "Side.RIGHT", "return x + 1 if side is Side.LEFT else x - 1")
def enumeration():
    return calls(compiled(on_side), (X, Side.LEFT), (X, Side.RIGHT))


def total(xs):
    return sum(xs)


def stacked(xs):
    return xs.sum(0)


@kind("length", "len(xs)", "2", "3", "return sum(xs)")
@followed_by(lambda: calls(compiled(stacked), *((marked(torch.stack([X] * n), 0),) for n in (2, 3, 5))))
def list_length():
    return calls(compiled(total), ([X, X + 1],), ([X, X + 1, X + 2],))


def all_of(batch):
    return sum(batch.values())


@kind("length", "len(batch)", "1", "2", "return sum(batch.values())")
@followed_by(lambda: calls(compiled(all_of), ({"a": X},), ({"a": X + 1},)))
def dictionary_keys():
    return calls(compiled(all_of), ({"a": X},), ({"a": X, "b": X + 1},))


def each_of(x, batch):
    for name in batch:
        x = x + batch[name]
    return x


@kind("keys", "key 0 of batch", "'a'", "'b'", "for name in batch:")
@followed_by(lambda: calls(compiled(each_of), (X, {"a": X - 1}), (X, {"a": X + 1})))
def other_keys():
    return calls(compiled(each_of), (X, {"a": X - 1}), (X, {"b": X - 1}))


def looked_up(x, names):
    return x + 1 if "a" in names else x - 1


@kind("contents", "names", "with 'a'", "{'b'}", 'return x + 1 if "a" in names else x - 1')
@followed_by(lambda: calls(compiled(looked_up), (X, {"a"}), (X, {"a"})))
def set_contents():
    return calls(compiled(looked_up), (X, {"a"}), (X, {"b"}))


class Gain(nn.Module):
    def __init__(self, gain):
        super().__init__()
        self.drop = nn.Dropout(0.0)
        if isinstance(gain, torch.Tensor):
            self.register_buffer("gain", gain)
        else:
            self.gain = gain

    def forward(self, x):
        return self.drop(x) * self.gain


def attribute_in_a_buffer():
    net = Gain(torch.tensor(2))
    f = compiled(net)
    return [lambda: f(X), lambda: (net.gain.fill_(5), f(X))]


@kind("attribute", "self.gain", "2", "5", "return self.drop(x) * self.gain")
@followed_by(attribute_in_a_buffer)
def attribute():
    net = Gain(2)
    f = compiled(net)
    return [lambda: f(X), lambda: (setattr(net, "gain", 5), f(X))]


@kind("training", "self.drop.training", "True", "False", "return self.drop(x) * self.gain")
def training():
    net = Gain(2)
    f = compiled(net)
    return [lambda: f(X), lambda: (net.eval(), f(X))]


FACTOR: Any = 3
TENSOR_FACTOR = torch.tensor(3)


def by_global(x):
    return x * FACTOR


def by_tensor_global(x):
    return x * TENSOR_FACTOR


def set_global(value):
    global FACTOR
    FACTOR = value


def tensor_global():
    f = compiled(by_tensor_global)
    return [lambda: f(X), lambda: (TENSOR_FACTOR.fill_(9), f(X))]


@kind("global", "FACTOR", "3", "9", "return x * FACTOR")
@followed_by(tensor_global)
def glob():
    f = compiled(by_global)
    set_global(3)
    return [lambda: f(X), lambda: (set_global(9), f(X))]


def apply(x, g):
    return g(x)


def times(n):
    def g(x):
        return x * n

    return g


@kind("closure", "a variable that g closes over", "2", "3", "return x * n")
@followed_by(lambda: calls(compiled(apply), (X, times(torch.tensor(2))), (X, times(torch.tensor(3)))))
def closure():
    return calls(compiled(apply), (X, times(2)), (X, times(3)))


def plus_one(x):
    return x + 1


@kind("identity", "g.__code__", "the code seen before", "another code", "return g(x)")
@followed_by(lambda: calls(compiled(apply), (X, plus_one), (X, plus_one)))
def new_function():
    return calls(compiled(apply), (X, eval("lambda x: x + 1")), (X, eval("lambda x: x + 1")))


def add(a, b):
    return a + b


@kind("aliasing", "a", "different tensors", "the same tensor for L['a'] and L['b']", "")
@followed_by(lambda: calls(compiled(add), (X, X + 1), (X, X.clone())))
def aliased():
    return calls(compiled(add), (X, X + 1), (X, X))


@kind("aliasing", "a", "one object for L['a'] and L['b']", "different ones", "")
@followed_by(lambda: calls(compiled(add), (X, X.clone()), (X, X + 1)))
def not_aliased():
    return calls(compiled(add), (X, X), (X, X + 1))


def under(context, f):
    with context():
        return f(X)


@kind("grad mode", "grad_mode", "True", "False", "")
@followed_by(lambda: twice(lambda f: under(torch.no_grad, f)))
def grad_mode():
    f = compiled(double)
    return [lambda: f(X), lambda: under(torch.no_grad, f)]


@kind("autocast", "autocast(cpu)_enabled", "", "", "")
@followed_by(lambda: twice(lambda f: under(lambda: torch.autocast("cpu"), f)))
def autocast():
    f = compiled(double)
    return [lambda: f(X), lambda: under(lambda: torch.autocast("cpu"), f)]


def with_default(dtype, f):
    torch.set_default_dtype(dtype)
    try:
        return f(X)
    finally:
        torch.set_default_dtype(torch.float32)


@kind("default dtype", "default_dtype", "another", "torch.float64", "")
@followed_by(lambda: twice(lambda f: with_default(torch.float64, f)))
def default_dtype():
    f = compiled(double)
    return [lambda: f(X), lambda: with_default(torch.float64, f)]


def deterministic(f):
    torch.use_deterministic_algorithms(True)
    try:
        return f(X)
    finally:
        torch.use_deterministic_algorithms(False)


@kind("deterministic algorithms", "deterministic_algorithms", "False", "True", "")
@followed_by(lambda: twice(lambda f: deterministic(f)))
def deterministic_algorithms():
    f = compiled(double)
    return [lambda: f(X), lambda: deterministic(f)]


@kind("torch function modes", "torch function modes", "other modes", "the modes in force now", "")
@followed_by(lambda: twice(lambda f: under(lambda: torch.device("cpu"), f)))
def device_context():
    f = compiled(double)
    return [lambda: f(X), lambda: under(lambda: torch.device("cpu"), f)]


@kind("marking", "marking", "no dimension marked", "a dimension marked as dynamic", "")
@followed_by(lambda: calls(compiled(double), (marked(torch.ones(4, 3), 0),), (marked(torch.ones(4, 3), 0),)))
def marking():
    return calls(compiled(double), (torch.ones(4, 3),), (marked(torch.ones(4, 3), 0),))
