"""``nn.Linear(784, 512)`` on 128-byte sticks: one finding on the user's line, and nothing about the batch."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from inductor_debug_jupyter import capture

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Lone(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(784, 512)

    def forward(self, x):
        return self.up(x)


class Product(nn.Module):
    def forward(self, x, w):
        return x @ w


def session_of(model, *args, lower="aot", target="stick128", **options):
    with capture(eager=True, lower=lower, target=target, **options) as session:
        model(*args)
    return session


def dynamic(tensor, dim, **bounds):
    torch._dynamo.mark_dynamic(tensor, dim, **bounds)
    return tensor


@pytest.mark.parametrize("lower", ["dynamo", "aot"])
@pytest.mark.parametrize(
    "make_input",
    [
        lambda: torch.randn(30, 784),
        lambda: torch.randn(30, 784, requires_grad=True),
        lambda: dynamic(torch.randn(30, 784), 0, min=2, max=512),
        lambda: torch.randn(30, 784, dtype=torch.float16),
    ],
    ids=["plain", "with backward", "symbolic batch", "float16"],
)
def test_linear_784_is_one_finding_that_says_what_fits(make_input, lower):
    x = make_input()
    session = session_of(Lone().to(x.dtype), x, lower=lower)
    (finding,) = session.findings
    assert (finding.rule_id, finding.severity) == ("align.innermost", "error")
    assert finding.title == "784 is not a multiple of 64"
    assert finding.observed == "784 (12.25 sticks)"
    assert finding.allowed == "multiples of 64, such as 768 or 832"
    (place,) = finding.places
    assert (place.module_path, place.source.text.strip()) == ("up", "return self.up(x)")
    if x.requires_grad and lower == "aot":
        assert session.captures[0].graph("backward") is not None


def test_a_symbolic_feature_size_is_a_condition_with_its_range():
    x, w = dynamic(torch.randn(30, 784), 1, min=2, max=1024), dynamic(torch.randn(784, 512), 0, min=2, max=1024)
    (finding,) = session_of(Product(), x, w).findings
    symbol = finding.observed
    assert finding.title == f"fits only when {symbol} % 64 == 0; {symbol} in [2, 1024]; it was 784 here"
    assert finding.severity == "error"


def test_a_range_without_any_multiple_never_fits():
    x, w = dynamic(torch.randn(30, 7), 1, min=2, max=60), dynamic(torch.randn(7, 512), 0, min=2, max=60)
    (finding,) = session_of(Product(), x, w).findings
    assert finding.title.startswith("never fits")
    assert finding.severity == "error"


def test_an_expression_that_is_always_a_multiple_is_no_finding():
    class Widened(nn.Module):
        def forward(self, x):
            return torch.relu(torch.cat([x] * 64, dim=1).reshape(x.shape[0], -1))

    found = session_of(Widened(), dynamic(torch.randn(4, 10), 1, min=2, max=100)).findings
    assert not [f for f in found if "64*" in f.title]


@pytest.mark.parametrize("lower", ["aot", "inductor"])
def test_twelve_layers_with_a_backward_are_one_finding_with_twelve_places(lower):
    stack = nn.Sequential(*(nn.Linear(784, 784) for _ in range(12)))
    (finding,) = session_of(stack, torch.randn(30, 784, requires_grad=True), lower=lower).findings
    assert {place.module_path for place in finding.places} == {str(index) for index in range(12)}
    assert len(finding.places) == 12


def test_a_batch_is_spared_wherever_it_turns_up():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(64, 128)

        def forward(self, x, wanted):
            return F.cross_entropy(self.head(x.flatten(0, 1)), wanted.flatten())

    args = torch.randn(7, 5, 64, requires_grad=True), torch.randint(0, 128, (7, 5))
    found = [f for f in session_of(Loss(), *args).findings if f.severity == "error"]
    assert found == []


def test_whole_numbers_are_told_to_be_narrowed_and_floats_in_the_coverage():
    session = session_of(nn.Sequential(nn.Embedding(10, 64)), torch.tensor([[1, 2]]))
    (finding,) = session.findings
    assert (finding.rule_id, finding.severity, finding.title) == ("dtype.narrowed", "info", "int64 is kept as int32")
    narrowed = {(was, kept) for graph in session.coverage.graphs for was, kept, _ in graph.narrowed}
    assert narrowed == {("float32", "float16"), ("int64", "int32")}


def test_tiles_ask_matmuls_for_lanes_and_rows_and_convolutions_for_channels():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3)
            self.out = nn.Linear(100, 128)

        def forward(self, image, x):
            return self.conv(image).sum() + self.out(x).sum()

    found = session_of(Both(), torch.randn(2, 3, 9, 9), torch.randn(30, 100), target="systolic128").findings
    titles = {(f.rule_id, f.title) for f in found if f.rule_id.startswith("align")}
    assert titles == {
        ("align.innermost", "100 is not a multiple of 128"),
        ("align.channels", "3 is not a multiple of 8"),
    }


def test_channels_last_is_asked_of_images_only_where_the_profile_says_so():
    model, image = nn.Sequential(nn.Conv2d(16, 16, 3)), torch.randn(2, 16, 9, 9)
    rules = {f.rule_id for f in session_of(model, image, target="edge-int8").findings}
    assert "layout.not_channels_last" in rules
    torch._dynamo.reset()
    model, image = model.to(memory_format=torch.channels_last), image.to(memory_format=torch.channels_last)
    rules = {f.rule_id for f in session_of(model, image, target="edge-int8").findings}
    assert "layout.not_channels_last" not in rules
