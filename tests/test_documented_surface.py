"""Everything that the predecessor's two READMEs show works here, with this package's name in its place.

Each snippet and command runs in a fresh process, in an empty folder. Models from a hub are replaced by ones from a
config; installation lines are left out. A comment names the section that a test stands for.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(280)

PACKAGE = "inductor_debug_jupyter"


def run(*command: str, code: int = 0, **environment: str) -> str:
    """Run a command in the test's own folder; its output. It must exit with ``code``."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MOCK_", "INDUCTOR_DEBUG_A"))}
    done = subprocess.run(
        command, env=clean | {"NO_COLOR": "1"} | environment, capture_output=True, text=True, timeout=270
    )
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def python(source: str, code: int = 0, **environment: str) -> str:
    """Run a script."""
    Path("script.py").write_text(source)
    return run(sys.executable, "script.py", code=code, **environment)


def cli(*arguments: str, code: int = 0, **environment: str) -> str:
    """Run the command-line tool."""
    return run(str(Path(sys.executable).parent / "inductor-debug"), *arguments, code=code, **environment)


CAPTURE = """
import torch
from inductor_debug_jupyter import mock_backend

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(30, 64)

    def forward(self, x):
        print("a graph break")
        return self.proj(x)

print(torch.compile(Net(), backend=mock_backend)(torch.randn(8, 30)).shape)
"""


@pytest.fixture(scope="module")
def captured_once(tmp_path_factory):
    """A folder in which something was captured: a graph break, and 30, which is no multiple of 16."""
    folder = tmp_path_factory.mktemp("captured")
    with contextlib.chdir(folder):
        out = python(CAPTURE, MOCK_STRICT="0", MOCK_ALIGNMENT="16")
    assert "torch.Size([8, 64])" in out
    assert "30 is not a multiple of 16" in out
    return folder


@pytest.fixture
def captured(captured_once):
    """The same, in the test's own folder."""
    shutil.copytree(captured_once / "debug_artifacts", "debug_artifacts")


# 9. CLI Tool, and "CLI" of the early README ---------------------------------------------------------------------------


@pytest.mark.usefixtures("captured")
def test_cli_list_shows_what_was_captured():
    assert "Net" in cli("list")
    assert len(json.loads(cli("list", "--format", "json"))) == 1
    assert "Net" in run(sys.executable, "-m", PACKAGE, "list")
    assert "30 is not a multiple of 16" in cli("show")
    assert json.loads(cli("show", "--format", "json"))["session"]["name"] == "Net"


@pytest.mark.usefixtures("captured")
def test_cli_analyze_really_analyses():
    assert "TENSOR_MATCH" in cli("analyze", "--type", "guards")
    assert "30 is not a multiple of 16" in cli("analyze", "--type", "constraints")
    summary = cli("analyze", "--type", "summary")
    assert "Net" in summary
    assert "1 graph" in summary
    assert json.loads(cli("analyze", "--type", "constraints", "--format", "json"))


@pytest.mark.usefixtures("captured")
def test_cli_report_html_and_json():
    cli("report", "--format", "html")
    (page,) = Path("debug_artifacts/reports").glob("debug_report_*.html")
    assert "30 is not a multiple of 16" in page.read_text()
    cli("report", "--format", "json")
    (data,) = Path("debug_artifacts/reports").glob("debug_report_*.json")
    report = json.loads(data.read_text())
    assert set(report) >= {"model", "timestamp", "summary", "guards", "constraints", "kernel_diff", "artifacts"}
    assert set(report["summary"]) >= {"total_graphs", "graph_breaks", "constraint_violations", "kernel_diff_passed"}
    assert report["summary"]["total_graphs"] == 1
    assert report["summary"]["kernel_diff_passed"] is None


@pytest.mark.usefixtures("captured")
def test_cli_clean_removes_what_was_captured():
    Path("debug_artifacts/mine.txt").write_text("not yours")
    cli("clean", "--yes")
    assert "nothing" in cli("list").lower()
    assert Path("debug_artifacts/mine.txt").exists()


# Quick Package Test ---------------------------------------------------------------------------------------------------


def test_the_names_of_the_quick_test_are_there():
    out = python(
        "from inductor_debug_jupyter import mock_backend, GuardInspector, KernelDiffHarness, aot_mock_backend\n"
        'print("mock backend ready:", mock_backend.__name__, GuardInspector, KernelDiffHarness, aot_mock_backend)\n'
    )
    assert "mock backend ready: mock_backend" in out


# Using the Mock Backend; "Running the Mock Backend" and "Configuration" of the early README -------------------------


def test_mock_backend_configured_by_the_environment():
    source = """
import os
import torch
from inductor_debug_jupyter import mock_backend

os.environ["MOCK_STRICT"] = "1"
os.environ["MOCK_ALIGNMENT"] = "8"
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU())
compiled_model = torch.compile(model, backend=mock_backend)
output = compiled_model(torch.randn(3, 16))
print(torch.equal(output, model(torch.zeros(3, 16) + 0)) or output.shape)
"""
    assert "torch.Size([3, 32])" in python(source)
    refused = python(source.replace("Linear(16, 32)", "Linear(16, 30)"), code=1)
    assert "ConstraintViolationError: default refuses this" in refused
    assert "30 is not a multiple of 8" in refused


def test_max_memory_and_exports():
    refused = python(CAPTURE, code=1, MOCK_STRICT="1", MOCK_ALIGNMENT="1", MOCK_MAX_MEMORY="1024")
    assert "over the limit of 1 KiB" in refused


# Using the AOTAutograd + TorchInductor Backend ------------------------------------------------------------------------


def test_aot_backend_trains():
    out = python("""
import torch
from inductor_debug_jupyter import DtypeConstraint, ShapeConstraint, aot_mock_backend

class Training(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(16, 8)

    def forward(self, x, y):
        return torch.nn.functional.mse_loss(self.proj(x), y)

model = Training()
backend = aot_mock_backend(
    strict=True,
    constraints=[ShapeConstraint(alignment=8), DtypeConstraint(allowed_dtypes={"float32", "float16"})],
)
compiled = torch.compile(model, backend=backend)
x, y = torch.randn(4, 16), torch.randn(4, 8)
out = compiled(x, y)
out.backward()
ours = model.proj.weight.grad.clone()
model.zero_grad()
model(x, y).backward()
torch.testing.assert_close(ours, model.proj.weight.grad)
print("trained")
""")
    assert "trained" in out
    rooms = {path.name for path in Path("debug_artifacts").iterdir() if path.is_dir() and any(path.iterdir())}
    assert {"fx_graphs", "aot_graphs", "inductor_ir", "inductor_kernels", "statistics"} <= rooms


# Running KernelDiff Comparison ----------------------------------------------------------------------------------------


def test_kernel_diff_of_tensors_and_of_a_model():
    out = python("""
import torch
from inductor_debug_jupyter import KernelDiffHarness, compare_tensors, tensors_are_close

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
x = torch.randn(4, 8)
eager_output, compiled_output = model(x), torch.compile(model, backend="aot_eager")(x)
result = compare_tensors(eager_output, compiled_output)
print(f"Match: {result.passed}")
print(f"Max Error: {result.max_absolute_error:.2e}")
assert tensors_are_close(eager_output, compiled_output)
harness = KernelDiffHarness(model, (x,))
report = harness.compare(generate_visualizations=True)
print(report.summary())
print("passed", report.passed)
""")
    assert "Match: True" in out
    assert "Max Error: 0.00e+00" in out
    assert "passed True" in out
    assert list(Path("debug_artifacts/visualizations").glob("*.png"))


# Running Benchmarks ---------------------------------------------------------------------------------------------------


@pytest.mark.long  # test_models.py has a tiny model go all the way
def test_benchmarks_list_and_one_small_model():
    listed = run(sys.executable, "-m", f"{PACKAGE}.benchmarks", "models", "--list")
    for name in ("bert", "resnet", "mamba"):
        assert name in listed
    table = run(
        *(sys.executable, "-m", f"{PACKAGE}.benchmarks", "models", "--model", "resnet", "--small"),
        *("--warmup", "1", "--runs", "2", "--device", "cpu"),
    )
    assert "resnet" in table
    assert "Speedup" in table
    # Example 3: the benchmark's session feeds the analyzers and the report.
    assert "TENSOR_MATCH" in cli("analyze", "--type", "guards")
    cli("report", "--format", "html")
    (page,) = Path("debug_artifacts/reports").glob("debug_report_*.html")
    assert "resnet" in page.read_text()


# Example 1 ------------------------------------------------------------------------------------------------------------


def test_example_1_a_forced_float64_is_refused_and_analysed():
    refused = python(
        """
import torch
from inductor_debug_jupyter import mock_backend

class TinyAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = torch.nn.Linear(64, 64).double()

    def forward(self, x):
        return self.proj(x.double())

model = TinyAttention()
compiled = torch.compile(model, backend=mock_backend)
compiled(torch.randn(32, 64))
""",
        code=1,
        MOCK_STRICT="1",
        MOCK_ALIGNMENT="16",
    )
    assert "float64 is not supported" in refused
    assert "float64 is not supported" in cli("analyze", "--type", "constraints")
    (repro,) = Path("debug_artifacts/repros").glob("*.py")
    assert "float64 is not supported" in run(sys.executable, "-I", str(repro))


# Example 2 ------------------------------------------------------------------------------------------------------------


def test_example_2_kernel_diff_against_the_mock_backend():
    out = python("""
import torch
from inductor_debug_jupyter import KernelDiffHarness, mock_backend

class TinyMLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128))

    def forward(self, x):
        return self.net(x)

harness = KernelDiffHarness(
    TinyMLP(),
    (torch.randn(16, 128),),
    model_name="tiny_mlp",
    reference_backend="eager",
    test_backend=mock_backend,
)
report = harness.compare(generate_visualizations=True)
print(report.summary())
print(report.save_json())
""")
    assert "tiny_mlp" in out
    assert list(Path("debug_artifacts/reports").glob("*.json"))


# Troubleshooting: nested outputs --------------------------------------------------------------------------------------


def test_nested_and_huggingface_outputs_are_compared():
    out = python("""
import torch
from transformers import BertConfig, BertModel
from inductor_debug_jupyter import ComparisonConfig, KernelDiffHarness

config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
model = BertModel(config).eval()
harness = KernelDiffHarness(
    model,
    {"input_ids": torch.tensor([[1, 2, 3]])},
    test_backend="aot_eager",
    comparison_config=ComparisonConfig(flatten_lists=True),
)
report = harness.compare()
print(sorted(output.path for output in report.outputs), report.passed)
""")
    assert "['last_hidden_state', 'pooler_output'] True" in out


# Guard Inspector (6., and 3. of the early README) ---------------------------------------------------------------------


def test_guard_inspector():
    out = python("""
import torch
from inductor_debug_jupyter import GuardInspector

class Net(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        print("break")
        return y * 2

inspector = GuardInspector(Net())
report = inspector.inspect({"x": torch.ones(2)})
assert report.graph_count == 2, report
assert report.break_count == 1
inspector.print_report()
""")
    assert "TENSOR_MATCH" in out
    assert "print" in out


# 5. Backend Adapter Interface, 8. Minifier, 4. HTML Report Generator --------------------------------------------------


def test_adapters_minifier_and_report_generator():
    out = python("""
import torch
from inductor_debug_jupyter import (
    AcceleratorAdapter, AcceleratorCapabilities, CompilationResult, HTMLReportGenerator, IntegratedMockAdapter,
    Minifier, MockAcceleratorAdapter, capture, create_mock_backend,
)

model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), torch.randn(2, 8)
for adapter in (MockAcceleratorAdapter(), IntegratedMockAdapter()):
    assert torch.float32 in adapter.get_supported_dtypes()
    assert adapter.get_memory_limit() > 0
    assert adapter.get_supported_ops() is None  # any op
    out = torch.compile(model, backend=create_mock_backend(adapter))(x)
    torch.testing.assert_close(out, model(x))
    torch._dynamo.reset()

assert MockAcceleratorAdapter(ops={"linear", "relu"}).get_supported_ops() == {"linear", "relu"}
graph = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(3, 3)))
try:
    graph(x)
except RuntimeError as error:
    minifier = Minifier(graph, [x], error)
    minifier.minify()
    print("repro", minifier.generate_repro_script("smallest.py"))
with capture(eager=True, lower="dynamo"):
    model(x)
print("report", HTMLReportGenerator().generate("report.html"))
""")
    assert "repro" in out
    assert Path("report.html").stat().st_size > 1000
    run(sys.executable, "-I", "smallest.py")


# Interactive Demo: here it is the quickstart, and the tutorial notebooks -------------------------------------------


def test_the_guided_tour_runs_without_a_display():
    out = cli("quickstart", "--headless")
    assert "stick128 refuses this: 1 error" in out
    assert "Done:" in out
