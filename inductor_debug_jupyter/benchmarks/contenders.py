"""Who is measured side by side: ways to see what torch.compile makes.

A contender runs in a child process of its own. ``environment`` is called in the parent, everything else in the child.
What it gives is read from the files that it left in its folder, never from a list of promises. torch and the
contenders' own packages are imported in the child only.
"""

from __future__ import annotations

import html
import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

from inductor_debug_jupyter.benchmarks.printing import error_line
from inductor_debug_jupyter.pipeline.errors import NotFoundError

_FRAME = 1
"""Dynamo's number of the measured frame: the child compiles one other function first (see ``child.py``)."""
_CODE = r"def call\("
"""Inductor's wrapper code."""
_KERNEL = r'extern\s+"C"'
"""The source of a C++ kernel, wherever it stands."""
_GRAPH = r"def forward\(\s*self"
"""An FX graph as Python."""
_IR = r": \w*SchedulerNode\("
"""Inductor's IR."""


class Contender:
    """torch.compile with nothing around it: what everything else is compared with.

    Args:
        title: what the table calls it.
        warm_caches: whether torch may use its FX and AOT caches; they are off for everything that is compared.
    """

    patterns: ClassVar[tuple[tuple[str, str, str], ...]] = ()
    """Stage, glob below the contender's folder, and a regular expression that the file must contain."""

    def __init__(self, title: str, *, warm_caches: bool = False) -> None:
        self.title, self.warm_caches = title, warm_caches

    def environment(self, folder: Path) -> dict[str, str]:
        """Variables that must be set before torch is imported."""
        return {}

    def unavailable(self) -> str:
        """Why it cannot run here, or an empty string. What it needs is imported here, so that this is not counted."""
        return ""

    def watching(self, folder: Path) -> AbstractContextManager[Any]:
        """What is around the compile; leaving it is counted apart from the compile."""
        return nullcontext()

    def finish(self, folder: Path, watched: Any) -> None:
        """The steps after the compile that its user needs to see something; their cost counts."""

    def found(self, folder: Path) -> dict[str, str]:
        """The stages for which a file of the right name has the right content → that file."""
        found: dict[str, str] = {}
        for stage, glob, content in self.patterns:
            for path in sorted(folder.glob(glob)):
                if stage not in found and path.is_file() and re.search(content, _text(path), re.MULTILINE):
                    found[stage] = path.relative_to(folder).as_posix()
        return found

    def nodes(self, folder: Path) -> int:
        """How many graph nodes were recorded; 0 where they are not counted."""
        return 0


def _text(path: Path) -> str:
    """A file's text; of a web page, what a reader sees."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return html.unescape(re.sub(r"<[^>]+>", "", text)) if path.suffix == ".html" else text


class OurCapture(Contender):
    """This package. Leaving the block checks and stores the session; finishing saves it as one file too."""

    _SAVED = "session.json"
    _NODE_STAGES = ("dynamo", "joint", "forward", "backward", "post_grad")

    def unavailable(self) -> str:
        """It is this package: only import it."""
        importlib.import_module("inductor_debug_jupyter.pipeline.session")
        return ""

    def watching(self, folder: Path) -> AbstractContextManager[Any]:
        """The public capture, with all its defaults and an artifact folder of its own."""
        from inductor_debug_jupyter.pipeline.session import capture

        return capture(artifacts=str(folder / "artifacts"))

    def finish(self, folder: Path, watched: Any) -> None:
        """Save the session as JSON."""
        watched.save(folder / self._SAVED)

    def found(self, folder: Path) -> dict[str, str]:
        """The stages in the saved file."""
        return {stage: self._SAVED for capture in self._captures(folder) for stage in capture.stages}

    def nodes(self, folder: Path) -> int:
        """How many graph nodes were recorded."""
        graphs = [capture.graph(stage) for capture in self._captures(folder) for stage in self._NODE_STAGES]
        return sum(len(graph.nodes) for graph in graphs if graph is not None)

    def _captures(self, folder: Path) -> Any:
        from inductor_debug_jupyter.pipeline.records import load_session

        return load_session((folder / self._SAVED).read_bytes()).captures


class CompileDebug(Contender):
    """torch's own folder of files.

    The Dynamo graph and the joint graph are only inside a raw trace log that it writes beside them, for tlparse to
    read.
    """

    _LOG = "**/*torch_trace*.log"
    _FORWARD = "**/model__*_forward*"
    patterns = (
        ("dynamo", _LOG, rf'"dynamo_output_graph".*"frame_id": {_FRAME}\b'),
        ("joint", _LOG, rf'"aot_joint_graph".*"frame_id": {_FRAME}\b'),
        ("forward", f"{_FORWARD}/fx_graph_readable.py", _GRAPH),
        ("backward", "**/model__*_backward*/fx_graph_readable.py", _GRAPH),
        ("post_grad", f"{_FORWARD}/fx_graph_transformed.py", _GRAPH),
        ("ir_pre_fusion", f"{_FORWARD}/ir_pre_fusion.txt", _IR),
        ("ir_post_fusion", f"{_FORWARD}/ir_post_fusion.txt", _IR),
        ("code", f"{_FORWARD}/output_code.py", _CODE),
        ("kernel", f"{_FORWARD}/output_code.py", _KERNEL),
    )

    def environment(self, folder: Path) -> dict[str, str]:
        """The switch, and where its files go."""
        return {"TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(folder)}

    @contextmanager
    def watching(self, folder: Path) -> Iterator[None]:
        """Nothing around the compile; what the child's first compile left is no part of what it gives."""
        for left in folder.glob("**/model__*"):
            shutil.rmtree(left)
        yield


class Tlparse(Contender):
    """TORCH_TRACE writes a log, and a second program turns it into pages. Its CPU time counts too."""

    _PAGES = f"pages/*_{_FRAME}_0_*"
    patterns = (
        ("dynamo", f"{_PAGES}/dynamo_output_graph_*", _GRAPH),
        ("joint", f"{_PAGES}/aot_joint_graph_*", _GRAPH),
        ("forward", f"{_PAGES}/aot_forward_graph_*", _GRAPH),
        ("backward", f"{_PAGES}/aot_backward_graph_*", _GRAPH),
        ("post_grad", f"{_PAGES}/inductor_post_grad_graph_*", _GRAPH),
        ("ir_pre_fusion", f"{_PAGES}/*ir_pre_fusion*", _IR),
        ("ir_post_fusion", f"{_PAGES}/*ir_post_fusion*", _IR),
        ("code", f"{_PAGES}/inductor_output_code_*", _CODE),
        ("kernel", f"{_PAGES}/inductor_output_code_*", _KERNEL),
    )

    def environment(self, folder: Path) -> dict[str, str]:
        """Where torch writes its log."""
        return {"TORCH_TRACE": str(folder / "log")}

    def unavailable(self) -> str:
        """The second program must be there."""
        return "" if self._program() else "not installed: no program tlparse; pip install tlparse"

    def finish(self, folder: Path, watched: Any) -> None:
        """Run the second program on the log."""
        logs = sorted((folder / "log").glob("*.log"))
        if not logs:
            raise NotFoundError(f"TORCH_TRACE wrote no log into {folder / 'log'}")
        command = [self._program(), str(logs[0]), "-o", str(folder / "pages"), "--no-browser"]
        subprocess.run(command, check=True, capture_output=True, timeout=600)  # noqa: S603 - a program that we looked up

    @staticmethod
    def _program() -> str:
        """The tlparse beside this interpreter, or the one on the path."""
        return shutil.which("tlparse", path=str(Path(sys.executable).parent)) or shutil.which("tlparse") or ""


class Depyf(Contender):
    """Its documented ``prepare_debug``, which writes decompiled code and graphs when it is left."""

    patterns = (
        ("dynamo", "dump/__compiled_fn_*.__compiled_fn_*.py", _GRAPH),
        ("joint", "dump/*Joint_graph*.py", _GRAPH),
        ("forward", "dump/*Forward_graph*.py", _GRAPH),
        ("backward", "dump/*Backward_graph*.py", _GRAPH),
        ("post_grad", "dump/*AFTER_POST_GRAD*.py", _GRAPH),
        ("ir_pre_fusion", "dump/*pre_fusion*", _IR),
        ("ir_post_fusion", "dump/*post_fusion*", _IR),
        ("code", "dump/*kernel*.py", _CODE),
        ("kernel", "dump/*kernel*.py", _KERNEL),
    )

    def unavailable(self) -> str:
        """The package must be there, and must like this torch; imported here, so that the import is not counted."""
        try:
            importlib.import_module("depyf")
        except ModuleNotFoundError as error:
            return f"not installed: {error}; pip install depyf"
        except Exception as error:  # it patches torch's private names: whatever goes wrong is its result
            return f"cannot be imported: {error_line(error)}"
        return ""

    def watching(self, folder: Path) -> AbstractContextManager[Any]:
        """Its context manager."""
        manager: AbstractContextManager[Any] = importlib.import_module("depyf").prepare_debug(str(folder / "dump"))
        return manager


CONTENDERS: dict[str, Contender] = {
    "plain": Contender("plain compile"),
    "capture": OurCapture("our capture"),
    "compile_debug": CompileDebug("TORCH_COMPILE_DEBUG=1"),
    "tlparse": Tlparse("TORCH_TRACE + tlparse"),
    "depyf": Depyf("depyf"),
    "cached": Contender("warm FX/AOT cache hit", warm_caches=True),
}
"""Every contender, in the order of the table."""
