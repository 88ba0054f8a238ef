"""Start a measurement in a fresh process, under an environment in which every contender is equal.

The user's own switches of torch and of this package are taken out. Inductor compiles in the process itself
(``TORCHINDUCTOR_COMPILE_THREADS=1``: the CPU time of its worker pool could not be attributed) and kernels use one
thread; both and the hash seed are the same for everybody. All share one Inductor cache, so that the compiled
``.so`` files are there; a small run, whose figures say nothing, takes what the user's own cache has.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS
from inductor_debug_jupyter.benchmarks.job import Answer, Job, answer_path, dump, read_answer

TIMEOUT = 900.0
"""Seconds after which a child is ended."""

_CACHE = "TORCHINDUCTOR_CACHE_DIR"
_FOREIGN = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE", "TORCHINDUCTOR", "TORCHDYNAMO", "INDUCTOR_DEBUG", "MOCK_")


class Children:
    """Runs jobs.

    Args:
        folder: everything that is written goes below it.
        python: the interpreter of the children; it must have this package and a torch.
    """

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self._folder = folder
        self._python = python
        self._count = 0

    def compile(
        self, contender: str, layers: int, *, small: bool = False, warming: bool = False, timed: bool = False
    ) -> Answer:
        """What one compile costs; ``warming`` is for a run that nobody counts, and may use all cores.

        With ``timed`` our recorder is also timed from inside.
        """
        folder = self._new_folder()
        threads = {} if warming else {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
        extra = {**CONTENDERS[contender].environment(folder), **threads}
        return self._run(Job("compile", contender, layers, str(folder), small, timed=timed), extra)

    def calls(self, layers: int, calls: int, *, small: bool = False) -> Answer:
        """How fast compiled functions run."""
        return self._run(Job("calls", "capture", layers, str(self._new_folder()), small, calls), {})

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / f"child-{self._count:03}"
        folder.mkdir()
        return folder

    def _run(self, job: Job, extra: Mapping[str, str]) -> Answer:
        command = [self._python, "-m", "inductor_debug_jupyter.benchmarks.child", dump(job).decode()]
        try:
            done = subprocess.run(  # noqa: S603 - the interpreter is the user's own choice
                command,
                cwd=job.folder,
                env=self._environment(job, extra),
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return Answer(error=f"not ready after {TIMEOUT:.0f} s")
        except OSError as error:
            return Answer(error=f"{self._python} cannot be started: {error.strerror}")
        if (path := answer_path(job.folder)).exists():
            return read_answer(path.read_bytes())
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing was said"]
        return Answer(error=f"the process ended with {done.returncode}: {said[-1]}")

    def _environment(self, job: Job, extra: Mapping[str, str]) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        if self._python == sys.executable:  # also from a checkout that is not installed
            root = str(Path(__file__).resolve().parents[2])
            own["PYTHONPATH"] = os.pathsep.join(filter(None, (root, own.get("PYTHONPATH"))))
        cache = os.environ.get(_CACHE) if job.small else str(self._folder / "inductor-cache")
        own |= {_CACHE: cache} if cache else {}
        return {**own, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **extra}
