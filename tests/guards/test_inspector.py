"""One call of anything, reported graph by graph, and nothing of the user's touched."""

import functools
import io
import json

import pytest
import torch
from torch import nn

from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.guards import GuardInspector

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.gain = 2
        self.calls = 0

    def forward(self, x, n=1):
        h = self.up(x) * n
        print("between")
        return h.relu() * self.gain

    def half_way(self, x):
        return self.up(x) + self.gain


def double(x):
    return x * 2


def test_a_module_graph_by_graph(capsys):
    report = GuardInspector(Net()).inspect(torch.randn(2, 4), 3)
    assert capsys.readouterr().out == "between\n"
    assert (report.graph_count, report.break_count) == (2, 1)
    first, second = report.graphs
    assert (first.op_count, second.op_count) == (2, 2)
    assert first.name == "Net.forward"
    assert first.source.text.strip().startswith("def forward")
    assert {guard.compile_id for guard in first.guards} == {first.compile_id}
    assert {guard.compile_id for guard in second.guards} == {second.compile_id}
    assert "L['n'] == 3" in [check for guard in first.guards for check in guard.checks]
    assert "L['self'].gain == 2" in [check for guard in second.guards for check in guard.checks]
    assert "L['self'].gain == 2" not in [check for guard in first.guards for check in guard.checks]
    (graph_break,) = report.graph_breaks
    assert graph_break.source.text.strip() == 'print("between")'
    assert graph_break.hints
    assert report.recompiles == ()


class Callable_:
    def __call__(self, x):
        return x + 1


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (double, "double"),
        (Net().half_way, "Net.half_way"),
        (lambda x: x - 1, "<lambda>"),
        (functools.partial(torch.add, other=1), "partial"),
        (Callable_(), "Callable_"),
        (torch.relu, "relu"),
        (nn.functional.gelu, "gelu"),
        (nn.Linear(4, 4), "Linear"),
        (torch.compile(double, backend="eager"), "double"),
        (torch.compile(nn.Linear(4, 4), backend="eager"), "Linear"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_any_callable(target, name):
    report = GuardInspector(target).inspect(torch.randn(2, 4))
    assert report.name.endswith(name)
    assert report.graph_count == 1
    assert report.graphs[0].op_count >= 1
    assert any(guard.kind == "TENSOR_MATCH" for guard in report.graphs[0].guards)
    assert report.notes == ()


def test_positional_keyword_and_dictionary_are_the_same_call(capsys):
    net = Net()
    x = torch.randn(2, 4)
    for report in (
        GuardInspector(net).inspect(x, 3),
        GuardInspector(net).inspect(x=x, n=3),
        GuardInspector(net).inspect({"x": x, "n": 3}),
    ):
        assert report.graph_count == 2
        assert "L['n'] == 3" in [check for guard in report.guards for check in guard.checks]


def test_a_dictionary_that_is_an_input_stays_one():
    def pick(batch):
        return batch["ids"] + 1

    report = GuardInspector(pick).inspect({"ids": torch.ones(2)})
    (tensor,) = [guard for guard in report.guards if guard.kind == "TENSOR_MATCH"]
    assert tensor.expression == "L['batch']['ids']"


def test_calls_that_look_the_same_are_remembered(capsys):
    inspector = GuardInspector(Net())
    report = inspector.inspect(torch.randn(2, 4), 3)
    assert inspector.inspect(torch.randn(2, 4), 3) is report
    assert capsys.readouterr().out.count("between") == 1
    assert inspector.inspect(torch.randn(2, 4), 3, refresh=True) is not report
    for different in (
        lambda: inspector.inspect(torch.randn(3, 4), 3),
        lambda: inspector.inspect(torch.randn(4, 2).t(), 3),
        lambda: inspector.inspect(torch.randn(2, 4, requires_grad=True), 3),
        lambda: inspector.inspect(torch.randn(2, 4), 4),
        lambda: inspector.inspect(torch.randn(2, 4), True),
    ):
        assert different() is not report
    with torch.no_grad():
        assert inspector.inspect(torch.randn(2, 4), 3) is not report


def test_a_model_that_changed_is_inspected_again(capsys):
    net = Net()
    inspector = GuardInspector(net)
    x = torch.randn(2, 4)
    report = inspector.inspect(x)
    net.up.weight.requires_grad_(False)
    changed = inspector.inspect(x)
    assert changed is not report
    net.eval()
    assert inspector.inspect(x) is not changed


def test_the_users_cache_is_not_touched():
    compiled = torch.compile(double, backend="eager")
    compiled(torch.ones(2))
    for size in range(2, 2 + torch._dynamo.config.recompile_limit + 2):
        report = GuardInspector(compiled).inspect(torch.ones(size))
        assert report.graph_count == 1
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(2))
    assert len(torch._dynamo.eval_frame._get_cache_entries_for_region(double.__code__, -1)) == 1


def test_inspecting_leaves_no_entry_behind_even_of_what_never_ran():
    def fresh(x):
        return x * 3

    for target in (fresh, torch.compile(fresh, backend="eager"), torch.compile(fresh, backend="eager", dynamic=True)):
        assert GuardInspector(target).inspect(torch.ones(3)).graph_count == 1
        entries = torch._dynamo.eval_frame._get_cache_entries_for_region(fresh.__code__, -1)
        assert entries == []
    with pytest.raises(RuntimeError), torch.compiler.set_stance("fail_on_recompile"):
        torch.compile(fresh, backend="eager")(torch.ones(3))


def test_a_module_compiled_in_place_keeps_its_own_options():
    class Plain(nn.Module):
        def forward(self, x):
            return x * 2

    net = Plain()
    net.compile(backend="eager", dynamic=True)
    report = GuardInspector(net).inspect(torch.randn(3, 4))
    assert any(guard.kind == "SHAPE_ENV" for guard in report.guards)


def test_several_calls_show_what_recompiles_between_them():
    def scale(x, n):
        return x * n

    report = GuardInspector(scale).inspect_calls((torch.ones(2), 2), {"x": torch.ones(2), "n": 3}, [torch.ones(5), 3])
    assert report.graph_count == 3
    told = [recompile.reasons[0].partition(": ")[2] for recompile in report.recompiles]
    assert told[0] == "n == 2"
    assert told[1].startswith("tensor 'x' size mismatch")
    assert {recompile.source.text.strip() for recompile in report.recompiles} == {"return x * n"}


def test_data_dependent_code_has_its_breaks(capfd):
    def decide(x):
        if x.sum() > 0:
            x = x + 1
        return x * x.max().item()

    report = GuardInspector(decide).inspect(torch.ones(3))
    assert [item.source.text.strip() for item in report.graph_breaks] == [
        "if x.sum() > 0:",
        "return x * x.max().item()",
    ]
    assert report.graph_count == 3
    assert capfd.readouterr() == ("", "")


def test_the_models_error_comes_back_with_a_note():
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied") as error:
        GuardInspector(Net()).inspect(torch.randn(2, 5), n=3)
    assert error.value.__notes__ == ["While GuardInspector inspected Net(float32[2, 5], n=3)."]

    def failing(x):
        y = x + 1
        raise ValueError(f"mine: {y.shape}")

    with pytest.raises(ValueError, match="mine") as own:
        GuardInspector(failing).inspect(torch.ones(2))
    assert "failing(float32[2])" in own.value.__notes__[0]


def test_wrong_arguments_are_the_calls_own_type_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        GuardInspector(double).inspect()
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        GuardInspector(Net()).inspect(torch.ones(2, 4), y=1)


def test_bad_input_gets_one_clear_line():
    with pytest.raises(UsageError, match=r"takes a module, function or method, not 3 \(int\)"):
        GuardInspector(3)
    inspector = GuardInspector(double)
    with pytest.raises(UsageError, match=r"call inspect\(...\) first"):
        inspector.print_report()
    with pytest.raises(UsageError, match="at least one call"):
        inspector.inspect_calls()
    with pytest.raises(UsageError, match="not 'x'"):
        inspector.inspect_calls("x")
    inspector.inspect(torch.ones(2))
    with pytest.raises(OptionError, match="max_guards=-1"):
        inspector.print_report(max_guards=-1)
    with pytest.raises(OptionError, match="max_guards='all'"):
        inspector.print_report(max_guards="all")


def test_print_report_has_a_limit_of_ones_choice(capsys):
    inspector = GuardInspector(Net())
    report = inspector.inspect(torch.randn(2, 4), 3)
    capsys.readouterr()
    inspector.print_report()
    default = capsys.readouterr().out
    assert default.startswith("Net · 2 graphs · 1 break · 0 recompiles · ")
    texts = {}
    for limit in (0, 2, None):
        stream = io.StringIO()
        inspector.print_report(report, max_guards=limit, file=stream)
        texts[limit] = stream.getvalue()
    assert " n == 3  [test_inspector.py, line" in texts[2]
    assert "n == 3" not in texts[0]
    assert "more" not in texts[None]
    assert len(texts[0]) < len(texts[2]) < len(default) < len(texts[None])
    assert 'print("between")' in texts[0]


def test_the_report_is_json():
    report = GuardInspector(double).inspect(torch.ones(2))
    told = json.loads(json.dumps(report.to_dict()))
    assert told["graph_count"] == 1
    assert told["guard_count"] == len(report.guards)
    (graph,) = told["graphs"]
    assert graph["op_count"] == 1
    assert graph["source"]["line"] == double.__code__.co_firstlineno
    assert any(guard["kind"] == "TENSOR_MATCH" for guard in graph["guards"])


def test_nothing_compiled_never_looks_like_a_pass():
    @torch._dynamo.disable
    def untraced(x):
        return x + 1

    report = GuardInspector(untraced).inspect(torch.ones(2))
    assert report.graph_count == 0
    assert "NOTHING WAS CHECKED" in str(report)


def test_a_tiny_bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    model = transformers.BertModel(config).eval()
    inputs = {"input_ids": torch.arange(8)[None], "attention_mask": torch.ones(1, 8, dtype=torch.long)}
    inspector = GuardInspector(model)
    report = inspector.inspect(inputs)
    assert report.break_count == 0
    (graph,) = report.graphs
    assert graph.op_count > 20
    assert len(graph.guards) > 100
    (ids,) = [guard for guard in graph.guards if guard.kind == "TENSOR_MATCH" and "'input_ids'" in guard.expression]
    assert "size=[1, 8]" in ids.checks[0]
    weight = "L['self']._modules['pooler']._modules['dense']._parameters['weight']"
    (dense,) = [guard for guard in graph.guards if guard.kind == "TENSOR_MATCH" and guard.expression == weight]
    assert dense.source.label == "modeling_bert.py"
    assert "self.dense(" in dense.source.text
    assert inspector.inspect(**inputs) is report
    assert inspector.would_recompile(inputs).answer == "no"
    longer = {name: torch.cat([value, value], 1) for name, value in inputs.items()}
    answer = inspector.would_recompile(**longer)
    assert (answer.answer, answer.old, answer.new) == ("yes", "8", "16")
