"""See, under a notebook cell, what torch.compile makes of your model and what your accelerator would refuse.

``%load_ext inductor_debug_jupyter``, then ``%%inductor_debug --strict`` on top of a cell. In a script::

    from inductor_debug_jupyter import capture

    with capture(target="stick128", eager=True) as session:
        model(x)
    print(session)

``jupyter`` has magics and panel, ``cli`` the command ``inductor-debug``, ``pipeline`` everything that they show,
``benchmarks`` what it costs on your machine. Importing this package loads neither torch nor Jupyter: names are looked
up when they are used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from inductor_debug_jupyter.version import __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_PIPELINE = "inductor_debug_jupyter.pipeline"
_NAMES = {
    "ConstraintViolationError": f"{_PIPELINE}.errors",
    "BackendCrashError": f"{_PIPELINE}.errors",
    "InductorDebugError": f"{_PIPELINE}.errors",
    "fixed": f"{_PIPELINE}.fixits",
    "DebugSession": f"{_PIPELINE}.session",
    "capture": f"{_PIPELINE}.session",
    "last_session": f"{_PIPELINE}.session",
    "QuickRun": f"{_PIPELINE}.quick_run",
    "quick_run": "inductor_debug_jupyter.jupyter.quick_run",
    "mock_backend": f"{_PIPELINE}.backends",
    "aot_mock_backend": f"{_PIPELINE}.backends",
    "Constraint": f"{_PIPELINE}.devices",
    "DeviceProfile": f"{_PIPELINE}.devices",
    "DtypeConstraint": f"{_PIPELINE}.devices",
    "LayoutConstraint": f"{_PIPELINE}.devices",
    "MemoryConstraint": f"{_PIPELINE}.devices",
    "Problem": f"{_PIPELINE}.devices",
    "ShapeConstraint": f"{_PIPELINE}.devices",
    "UnsupportedOpsConstraint": f"{_PIPELINE}.devices",
    "AcceleratorAdapter": f"{_PIPELINE}.adapters",
    "AcceleratorCapabilities": f"{_PIPELINE}.adapters",
    "AdapterConformance": f"{_PIPELINE}.adapters.conformance",
    "BackendAdapter": f"{_PIPELINE}.adapters",
    "CompilationResult": f"{_PIPELINE}.adapters",
    "IntegratedMockAdapter": f"{_PIPELINE}.adapters",
    "IsolatedAdapter": f"{_PIPELINE}.adapters",
    "MockAcceleratorAdapter": f"{_PIPELINE}.adapters",
    "StickAdapter": f"{_PIPELINE}.adapters",
    "create_mock_backend": f"{_PIPELINE}.adapters",
    "find_adapter": f"{_PIPELINE}.adapters",
    "run_conformance": f"{_PIPELINE}.adapters.conformance",
    "bisect_stages": f"{_PIPELINE}.bisect",
    "ComparisonConfig": f"{_PIPELINE}.diff",
    "DiffReport": f"{_PIPELINE}.diff",
    "KernelDiffHarness": f"{_PIPELINE}.diff",
    "Recording": f"{_PIPELINE}.diff",
    "TensorComparisonResult": f"{_PIPELINE}.diff",
    "compare_recordings": f"{_PIPELINE}.diff",
    "compare_tensors": f"{_PIPELINE}.diff",
    "tensors_are_close": f"{_PIPELINE}.diff",
    "GuardInspector": f"{_PIPELINE}.guards",
    "compare_generation": f"{_PIPELINE}.numerics.generation",
    "compare_tokens": f"{_PIPELINE}.numerics.tokens",
    "Minifier": f"{_PIPELINE}.minify",
    "HTMLReportGenerator": f"{_PIPELINE}.reports",
    "Violation": f"{_PIPELINE}.records",
}

__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension", *sorted(_NAMES)]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_NAMES[name]), name)
    if _NAMES[name] == f"{_PIPELINE}.session" and "marimo" in sys.modules:
        _show_in_marimo()
    globals()[name] = value
    return value


def _show_in_marimo() -> None:
    """Let ``session.panel()`` make panels: marimo has no ``%load_ext``."""
    from inductor_debug_jupyter.jupyter.display import make_panel
    from inductor_debug_jupyter.pipeline.session import register_display

    register_display(make_panel)


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """What ``%load_ext inductor_debug_jupyter`` calls."""
    from inductor_debug_jupyter.jupyter.extension import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """What ``%unload_ext inductor_debug_jupyter`` calls."""
    from inductor_debug_jupyter.jupyter.extension import unload

    unload(shell)
