"""``tlparse``: TORCH_TRACE writes a log, and a second program turns it into pages. Its CPU time counts too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.benchmarks.contenders.contender import CODE, FRAME, GRAPH, IR, KERNEL, search
from inductor_debug_jupyter.benchmarks.contenders.plain import watching
from inductor_debug_jupyter.pipeline.errors import NotFoundError

TITLE = "TORCH_TRACE + tlparse"
WARM_CACHES = False

__all__ = ["TITLE", "WARM_CACHES", "environment", "finish", "found", "unavailable", "watching"]

_PAGES = f"pages/*_{FRAME}_0_*"
_PATTERNS = (
    ("dynamo", f"{_PAGES}/dynamo_output_graph_*", GRAPH),
    ("joint", f"{_PAGES}/aot_joint_graph_*", GRAPH),
    ("forward", f"{_PAGES}/aot_forward_graph_*", GRAPH),
    ("backward", f"{_PAGES}/aot_backward_graph_*", GRAPH),
    ("post_grad", f"{_PAGES}/inductor_post_grad_graph_*", GRAPH),
    ("ir_pre_fusion", f"{_PAGES}/*ir_pre_fusion*", IR),
    ("ir_post_fusion", f"{_PAGES}/*ir_post_fusion*", IR),
    ("code", f"{_PAGES}/inductor_output_code_*", CODE),
    ("kernel", f"{_PAGES}/inductor_output_code_*", KERNEL),
)


def environment(folder: Path) -> Mapping[str, str]:
    """Where torch writes its log."""
    return {"TORCH_TRACE": str(folder / "log")}


def unavailable() -> str:
    """The second program must be there."""
    return "" if _program() else "not installed: no program tlparse; pip install tlparse"


def finish(folder: Path, watched: Any) -> None:
    """Run the second program on the log."""
    logs = sorted((folder / "log").glob("*.log"))
    if not logs:
        raise NotFoundError(f"TORCH_TRACE wrote no log into {folder / 'log'}")
    command = [_program(), str(logs[0]), "-o", str(folder / "pages"), "--no-browser"]
    subprocess.run(command, check=True, capture_output=True, timeout=600)  # noqa: S603 - a program that we looked up


def found(folder: Path) -> dict[str, str]:
    """The stages in its pages."""
    return search(folder, _PATTERNS)


def _program() -> str:
    """The tlparse beside this interpreter, or the one on the path."""
    return shutil.which("tlparse", path=str(Path(sys.executable).parent)) or shutil.which("tlparse") or ""
