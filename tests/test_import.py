"""Importing the package is cheap and loads neither torch nor Jupyter."""

import json
import subprocess
import sys

import inductor_debug_jupyter

PROBE = """
import json, sys, time
start = time.perf_counter()
import inductor_debug_jupyter
seconds = time.perf_counter() - start
names = {name.partition(".")[0] for name in sys.modules}
heavy = {"torch", "IPython", "ipywidgets", "anywidget", "bqplot"}
print(json.dumps({"seconds": seconds, "loaded": sorted(names & heavy)}))
"""


def probe():
    output = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True).stdout
    return json.loads(output)


def test_import_loads_neither_torch_nor_jupyter():
    assert probe()["loaded"] == []


def test_import_takes_less_than_50_ms():
    assert min(probe()["seconds"] for _ in range(5)) < 0.050


def test_public_names_are_exactly_these():
    assert set(inductor_debug_jupyter.__all__) == {
        "AcceleratorAdapter",
        "AcceleratorCapabilities",
        "AdapterConformance",
        "BackendAdapter",
        "BackendCrashError",
        "ComparisonConfig",
        "CompilationResult",
        "Constraint",
        "ConstraintViolationError",
        "DebugSession",
        "DeviceProfile",
        "DiffReport",
        "DtypeConstraint",
        "GuardInspector",
        "HTMLReportGenerator",
        "InductorDebugError",
        "fixed",
        "IntegratedMockAdapter",
        "IsolatedAdapter",
        "KernelDiffHarness",
        "Recording",
        "LayoutConstraint",
        "MemoryConstraint",
        "Minifier",
        "MockAcceleratorAdapter",
        "Problem",
        "QuickRun",
        "ShapeConstraint",
        "StickAdapter",
        "TensorComparisonResult",
        "UnsupportedOpsConstraint",
        "Violation",
        "__version__",
        "aot_mock_backend",
        "bisect_stages",
        "capture",
        "compare_recordings",
        "compare_tensors",
        "create_mock_backend",
        "find_adapter",
        "last_session",
        "load_ipython_extension",
        "mock_backend",
        "quick_run",
        "run_conformance",
        "tensors_are_close",
        "unload_ipython_extension",
    }
    for name in inductor_debug_jupyter.__all__:
        assert getattr(inductor_debug_jupyter, name) is not None
