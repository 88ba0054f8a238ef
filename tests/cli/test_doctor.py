"""``doctor`` tries the real thing, and says what will not work and why."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inductor_debug_jupyter.cli import doctor
from inductor_debug_jupyter.cli.doctor import Check
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.torch_compat import canaries

Cli = Callable[..., Any]


def test_everything_works_here(
    cli: Cli, store: ArtifactStore, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that can run the tests, nothing essential is broken: compiler, hooks, caches, widgets."""
    cache = tmp_path_factory.mktemp("inductor")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    result = cli("doctor", "--format", "json")
    data = json.loads(result.out)
    checks = {check["name"]: check for check in data["checks"]}
    assert [check for check in data["checks"] if check["state"] == "broken"] == []
    assert (result.code, data["broken"]) == (0, 0)
    assert {f"hook {part}" for part in canaries.PARTS} <= set(checks)
    assert checks["hook code"]["found"] == "there, and heard in a tiny compile"
    assert checks["C++ compiler"]["found"].endswith("compiled, loaded and ran a tiny file")
    assert "2 sessions" in checks["artifact folder"]["found"]
    assert "anywidget" in checks["jupyter packages"]["found"]
    assert checks["torch"]["state"] in {"ok", "warning"}
    assert sorted(path.name for path in store.folder.parent.iterdir()) == ["debug_artifacts"], "nothing is left behind"
    assert list(cache.rglob("*")) == [], "nor in Inductor's cache"


def test_the_table_and_quick(cli: Cli, folder: Path) -> None:
    result = cli("doctor", "--quick")
    assert result.code == 0
    rows = {line.split("  ")[0]: line for line in result.out.splitlines()}
    assert rows["hook dynamo"].split()[2:] == ["ok", "there"]
    assert "(not tried)" in rows["C++ compiler"]
    assert "made by the first capture" in rows["artifact folder"]
    assert "everything works" in result.out or "warning" in result.out
    assert list(folder.iterdir()) == []


def found(*, store: ArtifactStore | None = None, quick: bool = True) -> dict[str, Check]:
    return {check.name: check for check in doctor.all_checks(store, quick=quick)}


def test_an_artifact_folder_that_cannot_be_written(cli: Cli, folder: Path) -> None:
    (folder / "debug_artifacts").write_text("a file")
    for place in ("debug_artifacts", "debug_artifacts/inner", "/proc/debug_artifacts"):
        result = cli("doctor", "--quick", "--quiet", "--artifacts", place)
        assert result.code == 1
        assert "artifact folder" in result.out
        assert "→ captures stay in memory and are gone with the process" in result.out


def test_a_compiler_that_does_not_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text(
        "#!/bin/sh\necho 'In file included from x' >&2\necho \"$0: fatal error: Python.h: none\" >&2\nexit 1\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setattr(canaries, "cpp_compiler", lambda: str(compiler))
    check = doctor._cpp_compiler(quick=False)
    assert check.state == "broken"
    assert check.found.endswith("fatal error: Python.h: none")
    assert "cannot run on the CPU" in check.consequence
    compiler.unlink()
    assert "cannot be run" in doctor._cpp_compiler(quick=False).found

    def none() -> str:
        raise RuntimeError("No working C++ compiler found\nmore")

    monkeypatch.setattr(canaries, "cpp_compiler", none)
    assert "Inductor finds none (No working C++ compiler found); install g++" in doctor._cpp_compiler(quick=True).found


def test_a_cache_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(canaries, "cache_folder", lambda: tmp_path / "file" / "cache")
    checks = found()
    assert checks["inductor cache"].state == "broken"
    assert "Not a directory" in checks["inductor cache"].found
    assert "TORCHINDUCTOR_CACHE_DIR" in checks["inductor cache"].consequence
    assert checks["hooks"].found == "not tried, because of the cache folder"


def test_a_hook_that_is_gone(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch._inductor.debug.log_ir_pre_fusion")
    result = cli("doctor", "--quick", "--quiet")
    assert result.code == 0, "captures go on without that part"
    assert "this torch has no torch._inductor.debug.log_ir_pre_fusion" in result.out
    assert "→ captures lack Inductor's IR before and after fusion" in result.out
    monkeypatch.delattr("torch._dynamo.output_graph.OutputGraph.call_user_compiler")
    assert cli("doctor", "--quick", "--quiet").code == 1, "without Dynamo's hook nothing is captured"


def test_without_graphviz_and_without_widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    from inductor_debug_jupyter.pipeline.drawing.graphviz_layout import run_graphviz

    run_graphviz.cache_clear()
    graphviz = doctor._graphviz()
    assert (graphviz.state, graphviz.consequence) == ("warning", "graphs are drawn with a layout of our own")
    assert "no graphviz" in graphviz.found
    packages = doctor._packages()
    assert packages.state == "warning"
    assert packages.found.startswith("cannot be used: anywidget (")


def test_the_ipywidgets_that_vs_code_cannot_show(monkeypatch: pytest.MonkeyPatch) -> None:
    version = doctor.metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: {"ipywidgets": "8.1.9"}.get(name) or version(name))
    check = doctor._packages()
    assert (check.state, "ipywidgets==8.1.8" in check.consequence) == ("warning", True)


def test_settings_that_are_wrong(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_DEBUG_TARGT", "x")
    assert found()["settings"].state == "warning"
    monkeypatch.setenv("MOCK_ALIGNMENT", "many")
    check = found()["settings"]
    assert (check.state, check.found.split(";")[0]) == ("broken", "MOCK_ALIGNMENT: 'many' is not allowed")
    monkeypatch.setenv("INDUCTOR_DEBUG_ARTIFACTS", " ")
    result = cli("doctor", "--quick", "--quiet")
    assert result.code == 1
    assert "INDUCTOR_DEBUG_ARTIFACTS: ' ' is not allowed" in result.out


def test_an_untested_torch_and_no_torch_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.__version__", "9.9.9")
    check = doctor._torch()
    assert check.state == "warning"
    assert "torch 9.9.9 is outside the tested range" in check.found
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from inductor_debug_jupyter.cli.main import main; sys.exit(main(['doctor', '--quiet']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stderr
    assert "cannot be imported" in done.stdout
    assert "→ nothing can be captured" in done.stdout
