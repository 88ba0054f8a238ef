"""The weaknesses that the predecessor's own analysis lists are absent here: one test for each row of its tables."""

from __future__ import annotations

import gc
import json
import logging
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import inductor_debug_jupyter
from inductor_debug_jupyter import (
    ConstraintViolationError,
    DtypeConstraint,
    GuardInspector,
    KernelDiffHarness,
    LayoutConstraint,
    MemoryConstraint,
    ShapeConstraint,
    UnsupportedOpsConstraint,
    aot_mock_backend,
    capture,
    compare_tensors,
    mock_backend,
)
from inductor_debug_jupyter.cli.main import main
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord
from inductor_debug_jupyter.pipeline.store import ArtifactStore

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

SOURCE = Path(inductor_debug_jupyter.__file__).parent


class Net(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.proj = nn.Linear(width, 16)

    def forward(self, x):
        return torch.relu(self.proj(x))


def compiled(model, backend=mock_backend, *args):
    torch._dynamo.reset()
    return torch.compile(model, backend=backend)(*args)


class TestMockBackend:
    def test_hardcoded_artifact_path(self, monkeypatch, tmp_path):
        monkeypatch.setenv("INDUCTOR_DEBUG_ARTIFACTS", str(tmp_path / "elsewhere"))
        compiled(Net(), mock_backend, torch.ones(2, 12))
        assert ArtifactStore(tmp_path / "elsewhere").sessions()
        assert not Path("debug_artifacts").exists()

    def test_no_file_write_error_handling(self, caplog):
        Path("debug_artifacts").write_text("a file where the folder should be")
        out = compiled(Net(), mock_backend, torch.ones(2, 12))
        assert out.shape == (2, 16)
        assert caplog.text.count("nothing was saved") == 1

    def test_ignores_passed_constraints(self):
        backend = aot_mock_backend(strict=True, constraints=[ShapeConstraint(alignment=7)])
        with pytest.raises(ConstraintViolationError, match="12 is not a multiple of 7"):
            compiled(Net(), backend, torch.ones(2, 12))

    def test_md5_for_hashing(self):
        compiled(Net(), mock_backend, torch.ones(2, 12))
        assert all(re.fullmatch("[0-9a-f]{64}", a.sha256) for a in ArtifactStore("debug_artifacts").artifacts())
        assert not [path for path in SOURCE.rglob("*.py") if "md5" in path.read_text()]

    def test_no_graph_validation(self):
        with pytest.raises(InductorDebugError, match="GraphModule"):
            mock_backend("not a graph", [])

    def test_print_statements_for_logging(self, capsys, caplog, monkeypatch):
        monkeypatch.setenv("MOCK_STRICT", "0")
        monkeypatch.setenv("MOCK_ALIGNMENT", "8")
        with caplog.at_level(logging.WARNING, "inductor_debug_jupyter"):
            compiled(Net(), mock_backend, torch.ones(2, 12))
        assert capsys.readouterr() == ("", "")
        assert "12 is not a multiple of 8" in caplog.text

    def test_timestamp_collision_possible(self):
        compiled(nn.Sequential(nn.Linear(4, 4)), mock_backend, torch.ones(1, 4))
        compiled(nn.Sequential(nn.Linear(4, 8)), mock_backend, torch.ones(1, 4))
        graphs = [a.path for a in ArtifactStore("debug_artifacts").artifacts(room="fx_graphs")]
        assert len(graphs) == len(set(graphs)) >= 2


class TestConstraints:
    def test_no_constraint_naming(self):
        rules = [
            ShapeConstraint(8),
            DtypeConstraint(["float32"]),
            MemoryConstraint(),
            LayoutConstraint(),
            UnsupportedOpsConstraint(),
        ]
        assert len({rule.rule_id for rule in rules}) == 5
        assert repr(rules[0]) == "ShapeConstraint(alignment=8, dims='feature', unit='')"

    def test_unused_current_memory(self):
        class Wide(nn.Module):
            def forward(self, x):
                a, b = x + 1, x + 2
                return a * b

        with capture(eager=True, lower="aot", constraints=[MemoryConstraint(max_memory_bytes=3 * 400)]) as session:
            Wide()(torch.ones(100))
        assert "at its peak" in session.findings[0].title

    def test_incomplete_op_matching(self):
        for name in ("aten.relu", "aten.relu.default", "torch.relu", "F.relu", "nn.ReLU", "relu"):
            with capture(eager=True, lower="aot", constraints=[UnsupportedOpsConstraint([name])]) as session:
                Net()(torch.ones(2, 12))
            assert [finding.rule_id for finding in session.findings] == ["op.unsupported"], name

    def test_no_severity_levels(self):
        with capture(eager=True, lower="aot", target="stick128") as session:
            model = Net()
            (model(torch.ones(2, 12)).T * 2).sum()
            nn.Sequential(nn.ReLU())(torch.ones(4, 3).T)
        assert {finding.severity for finding in session.findings} == {"error", "warning"}

    def test_silent_none_handling(self):
        from inductor_debug_jupyter.pipeline.devices import check, load_profile, rules_for
        from inductor_debug_jupyter.pipeline.records import CompileCapture

        unknown = NodeRecord("mystery", "call_function", "custom.op", typed=False)
        graph = CompileCapture("0/0", graphs={"forward": GraphRecord("forward", (unknown,))})
        (finding,) = check([graph], rules_for(load_profile("default")))
        assert finding.rule_id == "type.unknown"
        assert "not checked" in finding.explanation

    def test_float_inf_as_default(self):
        assert isinstance(MemoryConstraint().max_memory_bytes, int)


class TestGuardInspector:
    def test_only_accepts_dict_inputs(self):
        x = torch.ones(2, 12)
        for report in (
            GuardInspector(Net()).inspect(x),
            GuardInspector(Net()).inspect(x=x),
            GuardInspector(Net()).inspect({"x": x}),
            GuardInspector(lambda x: x + 1).inspect(x),
        ):
            assert report.graph_count == 1
            assert report.guards

    def test_no_error_handling(self):
        class Broken(nn.Module):
            def forward(self, x):
                raise ValueError("the model's own")

        with pytest.raises(ValueError, match="the model's own"):
            GuardInspector(Broken()).inspect(torch.ones(1))
        with pytest.raises(InductorDebugError):
            GuardInspector(3)

    def test_private_api_usage(self):
        private = re.compile(r"torch\._(dynamo|inductor|functorch|C|logging|guards|subclasses)\b")
        offenders = [
            str(path.relative_to(SOURCE))
            for path in SOURCE.rglob("*.py")
            if "torch_compat" not in path.parts
            for line in path.read_text().splitlines()
            if private.search(line) and line.strip().startswith(("import ", "from "))
        ]
        assert offenders == []

    def test_no_caching(self):
        calls = []

        def counted(x):
            calls.append(1)
            return x + 1

        inspector = GuardInspector(counted)
        first = inspector.inspect(torch.ones(2))
        assert inspector.inspect(torch.ones(2)) is first
        assert inspector.inspect(torch.ones(3)) is not first

    def test_hardcoded_guard_limit(self, capsys):
        inspector = GuardInspector(Net())
        inspector.inspect(torch.ones(2, 12))
        inspector.print_report(max_guards=1)
        short = capsys.readouterr().out
        inspector.print_report(max_guards=None)
        assert len(capsys.readouterr().out.splitlines()) > len(short.splitlines())


class TestCli:
    @pytest.fixture(autouse=True)
    def _captured(self):
        with capture(eager=True, target="stick128", lower="inductor"):
            Net()(torch.ones(2, 12))

    def test_incomplete_analyze_command(self, capsys):
        assert main(["analyze", "--type", "constraints"]) == 0
        assert "12 is not a multiple of 64" in capsys.readouterr().out

    def test_only_lists_files_not_dirs(self, capsys):
        assert main(["list", "last", "--format", "json"]) == 0
        rooms = {artifact["room"] for artifact in json.loads(capsys.readouterr().out)}
        assert {"sessions", "fx_graphs", "aot_graphs", "inductor_kernels"} <= rooms

    def test_no_error_handling(self, capsys):
        assert main(["show", "nonsense"]) == 3
        assert capsys.readouterr().err.strip().count("\n") == 0

    def test_hardcoded_artifact_path(self, capsys, tmp_path):
        assert main(["list", "--artifacts", str(tmp_path / "other")]) == 0
        assert "Net" not in capsys.readouterr().out

    def test_no_color_output(self, monkeypatch):
        from inductor_debug_jupyter.pipeline.session import last_session
        from inductor_debug_jupyter.pipeline.views.text import session_text

        assert "\x1b[" in session_text(last_session().record, colour=True)
        assert "\x1b[" not in session_text(last_session().record)

    def test_no_verbose_quiet_modes(self, capsys):
        assert main(["list", "--verbose"]) == 0
        assert main(["list", "--quiet"]) == 0


class TestKernelDiff:
    def test_cpu_only_comparison(self):
        # The predecessor moved everything to CPU float32: a float64 difference of 1e-12 was lost.
        reference = torch.ones(4, dtype=torch.float64)
        result = compare_tensors(reference, reference + 1e-12, atol=0.0, rtol=0.0)
        assert not result.passed
        assert result.max_absolute_error == pytest.approx(1e-12, rel=1e-3)
        assert compare_tensors(reference.to("meta"), reference).verdict == "not_compared"

    def test_no_nan_inf_handling(self):
        nan, inf = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, float("inf")])
        assert compare_tensors(nan, nan).verdict == "mismatch"
        assert compare_tensors(inf, inf).passed
        assert compare_tensors(torch.tensor([1.0, 2.0]), nan).verdict == "mismatch"

    def test_no_gradient_comparison(self):
        x = torch.ones(2, 12, requires_grad=True)
        report = KernelDiffHarness(Net(), (x,), test_backend="aot_eager", backward=True).compare()
        assert {"grad:proj.weight", "grad:proj.bias"} <= {output.path for output in report.outputs}
        assert report.passed

    def test_memory_inefficient(self):
        import tracemalloc

        a = torch.zeros(20_000_000)
        b = a.clone()
        gc.collect()
        script = (
            "import resource, torch\n"
            "from inductor_debug_jupyter import compare_tensors\n"
            "a = torch.zeros(20_000_000); b = a.clone(); compare_tensors(a[:10], b[:10])\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "compare_tensors(a, b)\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
        )
        del a, b, tracemalloc
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert int(done.stdout) < 70_000  # kB; one copy of a tensor alone would be 80 MB

    def test_magic_numbers(self):
        many = nn.Module()
        many.forward = lambda x: tuple(x * n for n in range(15))
        report = KernelDiffHarness(many, (torch.ones(3),), test_backend="aot_eager").compare()
        assert len(report.outputs) == 15

    def test_no_timeout(self):
        class Hanging(nn.Module):
            def forward(self, x):
                time.sleep(3600)
                return x

        report = KernelDiffHarness(Hanging(), (torch.ones(2),), test_backend="aot_eager", timeout=1).compare()
        assert report.verdict == "not_compared"
        assert "1 s" in report.summary()


class TestRisks:
    def test_pytorch_api_changes(self, monkeypatch):
        from torch._inductor import compile_fx

        monkeypatch.delattr(compile_fx, "_recursive_post_grad_passes")
        with capture(eager=True, lower="aot") as session:
            Net()(torch.ones(2, 12))
        assert session.captures
        assert any("post_grad" in str(note) for note in session.notes)

    def test_guard_extraction_fails(self, monkeypatch):
        from torch._dynamo.guards import CheckFunctionManager

        assert CheckFunctionManager.__init__ is not None
        with capture(eager=True, lower="dynamo") as session:
            Net()(torch.ones(2, 12))
        assert session.record.guards

    def test_large_model_ooms(self):
        with pytest.raises(ConstraintViolationError, match="over the limit"):
            compiled(Net(), aot_mock_backend(constraints=[MemoryConstraint(64)]), torch.ones(2, 12))

    def test_visualization_fails(self, tmp_path):
        (tmp_path / "taken").write_text("")
        harness = KernelDiffHarness(Net(), (torch.ones(2, 12),), test_backend="aot_eager")
        report = harness.compare(generate_visualizations=True, output_dir=str(tmp_path / "taken"))
        assert report.passed
        assert report.record.notes

    def test_file_permissions(self, caplog):
        Path("debug_artifacts").write_text("")
        with capture(eager=True, lower="dynamo") as session:
            Net()(torch.ones(2, 12))
        assert "nothing was saved" in str(session)


class TestCrossCutting:
    def test_no_logging_framework(self):
        offenders = [
            str(path.relative_to(SOURCE))
            for path in (SOURCE / "pipeline").rglob("*.py")
            if re.search(r"^\s*print\(", path.read_text(), re.MULTILINE)
        ]
        assert [name for name in offenders if "repro" not in name and "minify" not in name] == []

    def test_no_configuration_file(self, tmp_path):
        Path("inductor_debug.toml").write_text('target = "stick128"\nlower = "aot"\n')
        with capture(eager=True) as session:
            Net()(torch.ones(2, 12))
        assert session.record.target == "stick128"
