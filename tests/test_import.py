"""Importing the package is cheap and loads neither torch nor Jupyter."""

import json
import subprocess
import sys

import inductor_debug_jupyter

PROBE = """
import json, sys
before = set(sys.modules)
import inductor_debug_jupyter
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_import_loads_nothing_but_its_own_few_files(cold_python):
    """Counted, not timed: neither torch nor Jupyter nor anything else that is installed."""
    output = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True).stdout
    loaded = json.loads(output)
    assert len([name for name in loaded if name.startswith("inductor_debug_jupyter")]) <= 3
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"inductor_debug_jupyter"}


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
        "compare_generation",
        "compare_recordings",
        "compare_tensors",
        "compare_tokens",
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
