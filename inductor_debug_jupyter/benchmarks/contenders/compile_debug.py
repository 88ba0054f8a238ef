"""``compile_debug``: TORCH_COMPILE_DEBUG=1, torch's own folder of files.

The Dynamo graph and the joint graph are only inside a raw trace log that it writes beside them, for tlparse to read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from inductor_debug_jupyter.benchmarks.contenders.contender import CODE, FRAME, GRAPH, IR, KERNEL, search
from inductor_debug_jupyter.benchmarks.contenders.plain import finish, unavailable

TITLE = "TORCH_COMPILE_DEBUG=1"
WARM_CACHES = False

__all__ = ["TITLE", "WARM_CACHES", "environment", "finish", "found", "unavailable", "watching"]

_FORWARD = "**/model__*_forward*"
_BACKWARD = "**/model__*_backward*"
_LOG = "**/*torch_trace*.log"
_PATTERNS = (
    ("dynamo", _LOG, rf'"dynamo_output_graph".*"frame_id": {FRAME}\b'),
    ("joint", _LOG, rf'"aot_joint_graph".*"frame_id": {FRAME}\b'),
    ("forward", f"{_FORWARD}/fx_graph_readable.py", GRAPH),
    ("backward", f"{_BACKWARD}/fx_graph_readable.py", GRAPH),
    ("post_grad", f"{_FORWARD}/fx_graph_transformed.py", GRAPH),
    ("ir_pre_fusion", f"{_FORWARD}/ir_pre_fusion.txt", IR),
    ("ir_post_fusion", f"{_FORWARD}/ir_post_fusion.txt", IR),
    ("code", f"{_FORWARD}/output_code.py", CODE),
    ("kernel", f"{_FORWARD}/output_code.py", KERNEL),
)


def environment(folder: Path) -> Mapping[str, str]:
    """The switch, and where its files go."""
    return {"TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(folder)}


@contextmanager
def watching(folder: Path) -> Iterator[None]:
    """Nothing around the compile; what the child's first compile left is no part of what it gives."""
    for left in folder.glob("**/model__*"):
        shutil.rmtree(left)
    yield


def found(folder: Path) -> dict[str, str]:
    """The stages in its files."""
    return search(folder, _PATTERNS)
