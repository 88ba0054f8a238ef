"""``%inductor_debug EXPR``, ``--last`` and ``--model``."""

import pytest

from inductor_debug_jupyter.pipeline.options import split_magic_line


@pytest.mark.parametrize(
    ("line", "options", "expression"),
    [
        ("model(x)", "", "model(x)"),
        ("--strict model(x)", "--strict", "model(x)"),
        ("--target stick128 --as s model(x, 'a b')", "--target stick128 --as s", "model(x, 'a b')"),
        ("--diff model(x)", "--diff", "model(x)"),
        ("--diff aot_eager model(x)", "--diff aot_eager", "model(x)"),
        ('--target "my chip.toml" f(-1) - 2', '--target "my chip.toml"', "f(-1) - 2"),
        ("--tarmac model(x)", "--tarmac", "model(x)"),
        ("--last", "--last", ""),
        ("", "", ""),
    ],
)
def test_options_stand_before_the_expression(line, options, expression):
    assert split_magic_line(line) == (options, expression)


SETUP = "import torch\nfrom torch import nn\nsmall, large = nn.Linear(3, 3), nn.Linear(5, 5)\nsession = None"


@pytest.fixture
def ready(kernel):
    assert not kernel.run(SETUP).error
    return kernel


def test_one_expression_answers_with_its_value(ready):
    outcome = ready.run("out = %inductor_debug --lower aot --no-panel --as session small(torch.ones(2, 3))\nout.shape")
    assert outcome.results == ["torch.Size([2, 3])"]
    assert ready.value("[c.name for c in session.captures]") == "['Linear']"


def test_an_error_in_the_expression_is_the_users_own(ready):
    outcome = ready.run("%inductor_debug --lower aot --no-panel small(torch.ones(2, 4))")
    assert outcome.error.startswith("RuntimeError: ")  # torch 2.15 names the op first
    assert "mat1 and mat2 shapes cannot be multiplied" in outcome.error
    assert "inductor_debug_jupyter" not in "\n".join(outcome.traceback).replace("%inductor_debug", "")


def test_strict_is_an_error_and_a_typo_is_one_line(ready):
    strict = ready.run("%inductor_debug --strict --alignment 64 --lower aot --no-panel small(torch.ones(2, 3))")
    assert strict.error.startswith("ConstraintViolationError: default refuses this")
    typo = ready.run("ran = False\n%inductor_debug --stric globals().update(ran=True)")
    assert "unknown option '--stric'; did you mean --strict?" in typo.stderr + typo.error
    assert ready.value("ran") == "False"


def test_the_last_session_is_shown_again(ready):
    ready.run("%inductor_debug --lower aot --no-panel small(torch.ones(2, 3))")
    for line in ("%inductor_debug --last", "%inductor_debug"):
        assert any("Linear on default" in one.get("text/plain", "") for one in ready.run(line).displays)


def test_only_one_model_is_captured(ready):
    cell = "%%inductor_debug --model large --lower aot --no-panel --as session\n"
    ready.run(cell + "small(torch.ones(2, 3))\nlarge(torch.ones(2, 5))\nsmall(torch.ones(4, 3))")
    assert ready.value("[c.graph('forward').calls[-1].shape for c in session.captures]") == "[(2, 5)]"
    compiled = "c_small, c_large = (torch.compile(m, backend='aot_eager') for m in (small, large))\n"
    calls = "c_small(torch.ones(2, 3)).sum().backward()\nc_large(torch.ones(2, 5)).sum().backward()"
    ready.run(compiled + calls)
    ready.run(cell.replace("large", "c_large") + calls)
    assert ready.value("[c.graph('forward').calls[-1].shape for c in session.captures]") == "[(2, 5)]"


def test_a_model_that_is_not_there_is_said_before_anything_runs(ready):
    for line in ("%inductor_debug --model smal small(torch.ones(2, 3))", "%%inductor_debug --model smal\nsmall.bias"):
        outcome = ready.run(line)
        assert "--model: there is no variable 'smal'; did you mean small?" in outcome.stderr + outcome.error
        assert outcome.results == []


def test_options_without_an_expression_are_not_ignored(ready):
    outcome = ready.run("%inductor_debug --target stick128")
    assert "nothing to run: put an expression behind the options" in outcome.stderr + outcome.error
    assert outcome.displays == []


def test_compare_takes_variables_and_files(ready):
    # A class of its own: of `Linear` torch may have seen other sizes in this kernel, and make the first one symbolic.
    ready.run("class Own(nn.Linear):\n    def forward(self, x): return torch.relu(super().forward(x))\nown = Own(3, 3)")
    ready.run("%inductor_debug --lower aot --no-panel --as before own(torch.ones(2, 3))")
    ready.run("%inductor_debug --lower aot --no-panel --as after own(torch.ones(4, 3))\nafter.save('after.json')")
    assert ready.value("'float32[2, 3] → float32[4, 3]' in str(before.compare(after))") == "True"
    for line in ("%inductor_debug --compare before after", "%inductor_debug --compare before after.json"):
        panel, snapshot = ready.run(line).displays
        assert "application/vnd.jupyter.widget-view+json" in panel
        assert "nodes-changed" in snapshot["text/plain"]
        assert snapshot["text/html"].count("<img ") == 2, "both graphs, for readers without a kernel"
    assert len(ready.run("before.compare(after)").displays) == 2, "a comparison is displayed alike"
    assert ready.run("str(before.compare(after))").displays == []
    for bad, told in (("before", "give two runs"), ("before nothing", "no session 'nothing'"), ("x y.json", "cannot")):
        outcome = ready.run(f"%inductor_debug --compare {bad}")
        assert "--compare: " in outcome.stderr + outcome.error
        assert told in outcome.stderr + outcome.error or bad == "x y.json"
