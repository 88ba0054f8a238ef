"""What a contender gives is read from its files; what it lacks is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS
from inductor_debug_jupyter.pipeline.errors import NotFoundError

compile_debug, depyf, tlparse = (CONTENDERS[name] for name in ("compile_debug", "depyf", "tlparse"))

GRAPH = "class GraphModule(torch.nn.Module):\n    def forward(\n        self,\n"
CODE = "cpp_fused_0 = ... r'''\nextern \"C\"  void kernel(\n'''\ndef call(self, args):\n"
IR = "op0: SchedulerNode(ComputedBuffer)\n"


def _write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_folder_of_torch_compile_debug(tmp_path: Path) -> None:
    run = "torch_compile_debug/run_1/torchinductor"
    log = 'V1 ] {"dynamo_output_graph": {"sizes": {}}, "frame_id": %d}\nV1 ] {"aot_joint_graph": {}, "frame_id": 0}\n'
    _write(
        tmp_path,
        {
            "torch_compile_debug/tlparse/dedicated_log_torch_trace_x.log": log % 1,
            f"{run}/aot_model___0_debug.log": "",
            f"{run}/model__1_forward_5.2/fx_graph_readable.py": GRAPH,
            f"{run}/model__1_backward_7.3/fx_graph_readable.py": "",
            f"{run}/model__1_forward_5.2/ir_pre_fusion.txt": IR,
            f"{run}/model__1_forward_5.2/output_code.py": CODE,
        },
    )
    found = compile_debug.found(tmp_path)
    assert set(found) == {"dynamo", "forward", "ir_pre_fusion", "code", "kernel"}  # empty files show nothing
    assert found["dynamo"].endswith(".log")
    _write(tmp_path, {"torch_compile_debug/tlparse/dedicated_log_torch_trace_x.log": log % 0})
    assert "dynamo" not in compile_debug.found(tmp_path)  # that is the child's first compile
    with compile_debug.watching(tmp_path):
        assert compile_debug.found(tmp_path) == {}


def test_the_pages_of_tlparse(tmp_path: Path) -> None:
    page = "<html><pre><span>extern</span> &quot;C&quot; ... <b>def</b> call(args)</pre></html>"
    files = {
        "pages/-_1_0_0/inductor_output_code_x_1.html": page,
        "pages/-_1_0_0/aot_joint_graph_2.txt": GRAPH,
        "pages/-_0_0_0/dynamo_output_graph_1.txt": GRAPH,
    }
    assert set(tlparse.found(_write(tmp_path, files))) == {"joint", "code", "kernel"}


def test_the_dump_of_depyf(tmp_path: Path) -> None:
    files = {"dump/__compiled_fn_3.Joint_graph.0.py": GRAPH, "dump/__compiled_fn_3.kernel_0.py": CODE}
    assert set(depyf.found(_write(tmp_path, files))) == {"joint", "code", "kernel"}


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "depyf", None)
    assert depyf.unavailable().startswith("not installed: ")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert tlparse.unavailable().startswith("not installed: no program tlparse")
    with pytest.raises(NotFoundError, match="TORCH_TRACE wrote no log"):
        tlparse.finish(tmp_path, None)


def test_only_one_contender_may_use_the_caches() -> None:
    assert [name for name, contender in CONTENDERS.items() if contender.warm_caches] == ["cached"]
