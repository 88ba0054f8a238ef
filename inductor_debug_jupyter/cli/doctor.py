"""``inductor-debug doctor``: what will not work on this machine with this torch, and why.

Each check tries the real thing.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.terminal import print_json, print_table
from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.errors import LayoutError, OptionError, StoreError, in_a_line
from inductor_debug_jupyter.pipeline.options import OPTIONS, add_options
from inductor_debug_jupyter.pipeline.settings import resolve, unknown_variables
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.version import __version__

SUMMARY = "check torch, every hook, the C++ compiler, graphviz, caches, Jupyter and the artifact folder"
EXAMPLES = """\
  inductor-debug doctor                 # all of it; compiles a tiny model and a tiny C++ file (half a minute)
  inductor-debug doctor --quick         # look only
  inductor-debug doctor --format json   # for a bug report or for CI; exit code 1 when something essential is broken
"""

_log = logging.getLogger(__name__)
_STYLES = {"ok": "green", "warning": "yellow", "broken": "bold red"}
State = Literal["ok", "warning", "broken"]
"""``warning``: something is missing, but captures work."""


@dataclass(frozen=True, slots=True)
class Check:
    """One result: the check's name, what was found, and (unless it is ok) what will not work."""

    name: str
    state: State
    found: str
    consequence: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--quick", action="store_true", help="compile nothing: only look whether things are there")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default table")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the checks; 1 when something essential is broken."""
    checks: list[Check] = []
    try:
        store = chosen_store(args)
    except OptionError as error:
        store = None
        checks.append(Check("artifact folder", "broken", str(error), "nothing can be saved"))
    for check in all_checks(store, quick=args.quick):
        _log.debug("%s: %s", check.name, check.state)
        checks.append(check)
    counts: Counter[str] = Counter(check.state for check in checks)
    if args.format == "json":
        print_json({"broken": counts["broken"], "checks": [asdict(check) for check in checks]})
    else:
        _print(checks, counts, quiet=args.quiet)
    return 1 if counts["broken"] else 0


def _print(checks: list[Check], counts: Counter[str], *, quiet: bool) -> None:
    """Print all checks, or with ``quiet`` those that are not ok."""
    shown = [check for check in checks if not quiet or check.state != "ok"]
    if shown:
        print_table(
            ("check", "state", "what was found"), [row for check in shown for row in _rows(check)], styles=_STYLES
        )
    if quiet:
        return
    bad = [f"{counts[state]} {state}" for state in ("broken", "warning") if counts[state]]
    print(f"\n{words.count(len(checks), 'check')}: {', '.join(bad) if bad else 'everything works'}.")


def _rows(check: Check) -> list[tuple[str, str, str]]:
    rows = [(check.name, str(check.state), check.found)]
    return [*rows, ("", "", f"→ {check.consequence}")] if check.consequence else rows


# The checks ---------------------------------------------------------------------------------------------------------


def all_checks(store: ArtifactStore | None, *, quick: bool) -> Iterator[Check]:
    """Every check in turn: the caller can show a result while the next one runs.

    Args:
        store: the artifact folder in force; None when the setting is bad.
        quick: compile nothing.
    """
    version = f"{platform.python_version()} ({sys.executable}), inductor-debug-jupyter {__version__}"
    yield Check("python", "ok", version)
    yield from _settings()
    if store is not None:
        yield _guarded("artifact folder", lambda: _artifact_folder(store))
    torch_there = _guarded("torch", _torch)
    yield torch_there
    if torch_there.state != "broken":
        yield from _compiler_checks(quick=quick)
    yield _guarded("graphviz", _graphviz)
    yield _packages()
    yield _guarded("JupyterLab widgets", _lab_extensions)


def _compiler_checks(*, quick: bool) -> Iterator[Check]:
    """The cache folder first: without it torch's compiler cannot even be imported."""
    cache = _guarded("inductor cache", _inductor_cache)
    yield cache
    if cache.state == "broken":
        yield Check("hooks", "broken", "not tried, because of the cache folder", "nothing can be captured")
        return
    yield _guarded("C++ compiler", lambda: _cpp_compiler(quick=quick))
    yield from _hooks(quick=quick)


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    """Run a check; an exception is a broken result."""
    try:
        return check()
    except Exception as error:
        return Check(name, "broken", in_a_line(error), "this could not be checked")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""


def _settings() -> Iterator[Check]:
    problems: list[str] = []
    for name in OPTIONS:
        try:
            resolve(names=[name])
        except OptionError as error:
            problems.append(str(error))
    if problems:
        found = "; ".join(dict.fromkeys(problems))
        yield Check("settings", "broken", found, "captures refuse to start until this is corrected")
    elif unknown := unknown_variables():
        yield Check("settings", "warning", "; ".join(unknown), "the variable is ignored")
    else:
        yield Check("settings", "ok", "every value is allowed (inductor-debug config shows them)")


def _artifact_folder(store: ArtifactStore) -> Check:
    """Write and delete a file there; nothing is created in a folder that is not there yet."""
    name, folder = "artifact folder", store.folder
    try:
        sessions = store.sessions()
        place = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
        if not place.is_dir():
            raise NotADirectoryError(0, "a file is in the way")
        _try_to_write(place)
    except (OSError, StoreError) as error:
        reason = str(error) if isinstance(error, StoreError) else f"{folder}: {error.strerror or error}"
        return Check(name, "broken", reason, "captures stay in memory and are gone with the process")
    free = words.size(shutil.disk_usage(place).free)
    held = words.count(len(sessions), "session") if folder.exists() else "made by the first capture"
    return Check(name, "ok", f"{folder}: {held}, {free} free")


def _try_to_write(folder: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".inductor-debug-doctor-") as file:
        file.write(b"x" * 4096)
        file.flush()
        os.fsync(file.fileno())


def _torch() -> Check:
    try:
        from inductor_debug_jupyter.pipeline.torch_compat.versions import torch_version, untested_reason
    except Exception as error:
        found = f"cannot be imported ({in_a_line(error)})"
        return Check("torch", "broken", found, "nothing can be captured")
    if reason := untested_reason():
        return Check("torch", "warning", reason, "what the hooks below say holds; the rest was never tried")
    return Check("torch", "ok", f"{torch_version()}, in the tested range")


def _hooks(*, quick: bool) -> Iterator[Check]:
    """One line for each part of a capture; without Dynamo's there is none at all."""
    try:
        from inductor_debug_jupyter.pipeline.torch_compat.canaries import canaries, temporary_inductor_cache

        with temporary_inductor_cache():
            found = canaries(compiling=not quick)
    except Exception as error:
        yield Check("hooks", "broken", in_a_line(error), "nothing can be captured")
        return
    how = "there" if quick else "there, and heard in a tiny compile"
    for canary in found:
        name = f"hook {canary.part}"
        if canary.problem is None:
            good = "the private names are there" if canary.part == "imports" else how
            yield Check(name, "ok", good)
        else:
            state: State = "broken" if canary.part in {"dynamo", "imports"} else "warning"
            yield Check(name, state, canary.problem, f"captures lack {canary.loses}")


def _inductor_cache() -> Check:
    from inductor_debug_jupyter.pipeline.torch_compat.canaries import cache_folder

    name = "inductor cache"
    try:
        folder = cache_folder()
        _try_to_write(folder)
    except OSError as error:
        where = error.filename or os.environ.get("TORCHINDUCTOR_CACHE_DIR", "the cache folder")
        found = f"{where}: {error.strerror or error}"
        return Check(name, "broken", found, "torch.compile fails; set TORCHINDUCTOR_CACHE_DIR to a folder of yours")
    files, size = _tree_size(folder)
    free = words.size(shutil.disk_usage(folder).free)
    return Check(name, "ok", f"{folder}: {words.count(files, 'file')}, {words.size(size)}, {free} free")


def _tree_size(folder: Path) -> tuple[int, int]:
    files = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 - a cache can hold very many
                files += 1
    return files, size


_TINY = """\
#include <Python.h>
#include <cmath>
#include <omp.h>
extern "C" double tiny(double x) {
    double sum = 0;
    #pragma omp parallel for reduction(+:sum)
    for (int i = 0; i < 4; i++) sum += std::sqrt(x);
    return sum;
}
"""


def _cpp_compiler(*, quick: bool) -> Check:
    """Compile, load and call a tiny library with what Inductor's kernels need: Python's headers and OpenMP."""
    from inductor_debug_jupyter.pipeline.torch_compat.canaries import cpp_compiler

    name = "C++ compiler"
    lost = "torch.compile(backend='inductor') cannot run on the CPU, and captures lack generated code"
    try:
        compiler = cpp_compiler()
    except Exception as error:
        found = f"Inductor finds none ({_first_line(error)}); install g++, or set CXX"
        return Check(name, "broken", found, lost)
    if quick:
        return Check(name, "ok", f"{compiler} (not tried)")
    with tempfile.TemporaryDirectory(prefix="inductor-debug-") as folder:
        source, library = Path(folder) / "tiny.cpp", Path(folder) / "tiny.so"
        source.write_text(_TINY)
        openmp = ["-Xpreprocessor", "-fopenmp", "-lomp"] if sys.platform == "darwin" else ["-fopenmp"]
        include = f"-I{sysconfig.get_paths()['include']}"
        command = [compiler, "-shared", "-fPIC", "-O1", include, *openmp, str(source), "-o", str(library)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Check(name, "broken", f"{compiler} cannot be run: {_first_line(error)}", lost)
        if done.returncode != 0:
            return Check(name, "broken", f"{compiler}: {_compiler_error(done.stderr, source)}", lost)
        answer = ctypes.CDLL(str(library)).tiny
        answer.restype, answer.argtypes = ctypes.c_double, [ctypes.c_double]
        if answer(4.0) != 8.0:
            return Check(name, "broken", f"{compiler} compiles, but the result is wrong", lost)
    return Check(name, "ok", f"{shutil.which(compiler) or compiler} compiled, loaded and ran a tiny file")


def _compiler_error(text: str, source: Path) -> str:
    """The first line with an error, without the temporary file's path."""
    lines = [line.replace(str(source), source.name) for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[-1] if lines else "it failed and said nothing")


def _graphviz() -> Check:
    """Lay a graph out as the panel does."""
    from inductor_debug_jupyter.pipeline.drawing.graphviz_layout import run_graphviz

    try:
        run_graphviz("digraph { a -> b }", timeout=60)
    except LayoutError as error:
        return Check("graphviz", "warning", str(error), "graphs are drawn with a layout of our own")
    dot = shutil.which("dot")
    return Check("graphviz", "ok", f"{dot} laid a graph out" if dot else "no dot; pygraphviz laid a graph out instead")


_PACKAGES = ("jupyterlab", "ipykernel", "IPython", "ipywidgets", "anywidget", "bqplot")


def _packages() -> Check:
    """Import what the notebook needs."""
    versions, missing = [], []
    for name in _PACKAGES:
        try:
            if name != "jupyterlab":  # a server: it is there or not, and is never imported
                importlib.import_module(name)
            versions.append(f"{name} {metadata.version(name)}")
        except Exception as error:
            missing.append(f"{name} ({in_a_line(error)})")
    if missing:
        lost = "no panels in notebooks; scripts and this command line still work"
        return Check("jupyter packages", "warning", f"cannot be used: {', '.join(missing)}", lost)
    if "ipywidgets 8.1.9" in versions:
        lost = "VS Code shows no panels with it (microsoft/vscode-jupyter#17504); pip install ipywidgets==8.1.8"
        return Check("jupyter packages", "warning", ", ".join(versions), lost)
    return Check("jupyter packages", "ok", ", ".join(versions))


def _lab_extensions() -> Check:
    """The front ends that JupyterLab loads; they may belong to another environment than the kernel."""
    wanted = ("anywidget", "@jupyter-widgets/jupyterlab-manager")
    try:
        from jupyter_core.paths import jupyter_path
    except ImportError as error:
        return Check("JupyterLab widgets", "warning", f"there is no Jupyter here ({error})", "no panels in notebooks")
    places = [Path(place) for place in jupyter_path("labextensions")]
    missing = [name for name in wanted if not any((place / name).is_dir() for place in places)]
    if missing:
        lost = "panels show as text if JupyterLab runs from this environment; pip install ipywidgets anywidget there"
        return Check("JupyterLab widgets", "warning", f"no front end of {', '.join(missing)} here", lost)
    return Check("JupyterLab widgets", "ok", f"front ends of {', '.join(wanted)} are here")
