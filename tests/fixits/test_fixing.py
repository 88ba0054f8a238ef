"""From a finding to a fix, as a user does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.session import DebugSession


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(784, 100)
        self.norm = nn.LayerNorm(100)
        self.down = nn.Linear(100, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.softmax(self.norm(nn.functional.gelu(self.up(x))), -1))


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 64, 3, padding=1)
        self.norm = nn.BatchNorm2d(64)
        self.last = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        return self.last(x.mean((2, 3)))


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(64)
        self.last = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(x))


def captured(model: nn.Module, *inputs: Any, folder: Path, backward: bool = True, **options: Any) -> DebugSession:
    given = {"target": "stick128", **options}
    with capture(eager=True, lower="aot", keep_inputs=True, artifacts=str(folder), **given) as session:
        made = model(*inputs)
        if backward:
            made.sum().backward()
    return session


def errors(session: DebugSession) -> list[str]:
    return [each.title for each in session.findings if each.severity == "error"]


@pytest.fixture
def session(tmp_path: Path) -> DebugSession:
    torch.manual_seed(0)
    return captured(Net(), torch.randn(64, 784), folder=tmp_path)


def test_each_finding_has_a_verified_fixit(session: DebugSession) -> None:
    before = errors(session)
    assert before == [f"{size} is not a multiple of 64" for size in (100, 784, 10)]
    for number, size in enumerate((100, 784, 10)):
        (offer,) = session.fixits(number)
        assert offer.fixits[-1].kind == "pad"
        assert offer.fixits[-1].title.startswith(f"pad {size} to")
        assert [each.title for each in offer.gone] == [f"{size} is not a multiple of 64"]
        assert offer.same_numbers
        assert session.findings[number].fixits
    assert errors(session) == before, "nothing is applied"


def test_apply_and_undo(session: DebugSession) -> None:
    changes: list[int] = []
    session.on_change(lambda: changes.append(len(session.findings)))
    before = session.record.findings
    first = session.fixits(1)[0]
    trial = session.apply(first)
    assert errors(session) == ["100 is not a multiple of 64", "10 is not a multiple of 64"]
    assert "findings   3 errors" in "\n".join(trial.lines())
    session.apply(*session.fixits(0))
    assert errors(session) == ["10 is not a multiple of 64"]
    assert [each.title for each in session.applied] == ["pad 784 to 832 (+6%)", "pad 100 to 128 (+28%)"]
    session.undo()
    assert errors(session) == ["100 is not a multiple of 64", "10 is not a multiple of 64"]
    assert session.undo() == ()
    assert [each.title for each in session.record.findings] == [each.title for each in before]
    assert changes == [3, 2, 2, 1, 2, 3], "the findings that observers see: fixits() adds words to them"
    with pytest.raises(UsageError, match="nothing to undo"):
        session.undo()


def test_all_the_way_and_a_module_to_call(session: DebugSession) -> None:
    model = session._calls.needed()[0].model
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    result = session.fix_all()
    assert result.accepted
    assert {each.kind for each in result.fixits} == {"pad"}
    assert "accepted" in str(result)
    assert torch.equal(torch.get_rng_state(), random)
    x = torch.randn(32, 784)  # another batch than the session's
    torch.testing.assert_close(result.module(x), model(x))
    result.module(x).sum().backward()
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name])


def test_images_are_laid_out_otherwise_before_anything_is_padded(tmp_path: Path) -> None:
    torch.manual_seed(0)
    session = captured(Images().eval(), torch.randn(2, 3, 24, 24), folder=tmp_path, backward=False)
    assert "24 is not a multiple of 64" in errors(session)
    result = session.fix_all()
    assert result.accepted
    assert [each.kind for each in result.fixits] == ["reorder", "pad", "pad"]
    assert {size for each in result.fixits for size in (*each.rewrite.pads, *each.rewrite.around)} == {3, 10}, (
        "no rows of images"
    )
    assert result.trial is not None
    assert any(each.rule_id == "layout.not_contiguous" for each in result.trial.new), "what gets worse is said"


def test_running_statistics_are_written_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Normed().train(), torch.randn(20, 64)
    session = captured(model, x, folder=tmp_path)
    before = model.norm.running_mean.clone()
    result = session.fix_all()
    assert result.accepted
    assert torch.equal(model.norm.running_mean, before), "a search leaves the model as it was"
    twin = Normed().train()
    twin.load_state_dict(model.state_dict())
    twin(x)
    result.module(x)
    torch.testing.assert_close(model.norm.running_mean, twin.norm.running_mean)


def test_a_cast(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU()).double()
    session = captured(model, torch.randn(4, 64, dtype=torch.float64), folder=tmp_path)
    result = session.fix_all()
    assert [each.kind for each in result.fixits] == ["cast"]
    assert result.accepted
    out = result.module(torch.randn(4, 64, dtype=torch.float64))
    assert out.dtype == torch.float64, "what comes back is what the user's code expects"


def test_a_copy(tmp_path: Path) -> None:
    class Turned(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.transpose(1, 2))

    session = captured(Turned(), torch.randn(2, 64, 64), folder=tmp_path, backward=False)
    (finding,) = [each for each in session.findings if each.rule_id == "layout.not_contiguous"]
    (offer,) = session.fixits(session.findings.index(finding))
    assert offer.fixits[-1].kind == "contiguous"
    assert offer.diff.verdict == "match"
    assert not offer.after.findings


def test_taking_an_op_apart(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU())
    target = tmp_path / "chip.toml"
    target.write_text('name = "chip"\n[ops]\ndeny = ["gelu", "gelu_backward"]\n', encoding="utf-8")
    session = captured(model, torch.randn(4, 64), folder=tmp_path, target=str(target))
    assert errors(session)
    result = session.fix_all()
    assert [each.kind for each in result.fixits] == ["decompose"]
    assert result.accepted, str(result)


def test_what_nothing_helps_is_listed_with_the_reason(tmp_path: Path) -> None:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv(x)

    session = captured(Inverse(), torch.eye(64), folder=tmp_path, backward=False)
    assert session.fixits() == ()
    result = session.fix_all()
    assert not result.accepted
    assert result.remaining[0].why
    assert "1 finding left" in str(result)


def test_a_change_of_the_numbers_is_not_offered(tmp_path: Path) -> None:
    """1e-30 times 1e30 is 1 in float64; in float32 the first factor survives, in float16 neither does."""

    class Narrow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x * 1e-60) * 1e60

    session = captured(Narrow(), torch.ones(4, 64, dtype=torch.float64), folder=tmp_path, backward=False)
    assert errors(session)
    assert session.fixits() == ()
    assert "was tried: the numbers" in session.fix_all().remaining[0].why


def test_a_session_without_inputs_says_so(tmp_path: Path) -> None:
    with capture(target="stick128", eager=True, lower="aot", artifacts=str(tmp_path)) as session:
        nn.Linear(10, 10)(torch.randn(4, 10))
    with pytest.raises(NotFoundError, match="keep_inputs"):
        session.fix_all()
    with pytest.raises(NotFoundError, match="finding 99"):
        session.fixits(99)
