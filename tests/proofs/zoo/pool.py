"""A few child processes that try cases; one that crashes or hangs costs its own case and no other.

A child tries one case after the other. It is started anew when it died, when a case took too long, and after
:data:`CASES_A_CHILD` cases, so that what the compiler keeps in memory does not grow without end.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import msgspec

from tests.proofs.zoo.trial import Outcome

PATIENCE = 300.0
"""Seconds that one case may take."""
CASES_A_CHILD = 40
COMMAND = (sys.executable, "-m", "tests.proofs.zoo.trial")

_FOREIGN = ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG", "TORCHDYNAMO", "INDUCTOR_DEBUG", "MOCK_")


def try_cases(ids: Sequence[str], jobs: int, told: Callable[[Outcome], None], patience: float = PATIENCE) -> None:
    """Try every case; ``told`` is called with each outcome, on the caller's thread, in the order of their ends."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for each in ids:
        waiting.put(each)
    done: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    stop = threading.Event()
    threads = [
        threading.Thread(target=_work, args=(waiting, done, stop, patience), daemon=True)
        for _ in range(min(jobs, len(ids)))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in ids:
            told(done.get())
    finally:
        stop.set()
        for thread in threads:
            thread.join(patience if sys.exc_info()[0] is None else 5)


def _work(
    waiting: queue.SimpleQueue[str], done: queue.SimpleQueue[Outcome], stop: threading.Event, patience: float
) -> None:
    child: _Child | None = None
    try:
        while not stop.is_set():
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                return
            if child is None or child.tried >= CASES_A_CHILD:
                if child is not None:
                    child.end()
                child = _Child()
            outcome = child.ask(case, patience)
            if not child.lives:
                child.end()
                child = None
            done.put(outcome)
    finally:
        if child is not None:
            child.end()


class _Child:
    """One process, and what it said on stderr."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by end()
        own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        root = str(Path(__file__).resolve().parents[3])
        path = os.pathsep.join(filter(None, (root, own.get("PYTHONPATH"))))
        threads = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        self._process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**own, "PYTHONPATH": path, **threads},
        )
        self.tried = 0
        self.lives = True

    def ask(self, case: str, patience: float) -> Outcome:
        """The outcome of a case; a child that did not answer does not live any more."""
        self.tried += 1
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        hung = threading.Event()

        def give_up() -> None:
            hung.set()
            self._process.kill()

        timer = threading.Timer(patience, give_up)
        timer.start()
        try:
            self._process.stdin.write(case + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line:
            return msgspec.json.decode(line, type=Outcome)
        self.lives = False
        return Outcome(case, shows="?", error=f"not ready after {patience:.0f} s" if hung.is_set() else self._ending())

    def _ending(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().decode("utf-8", "replace").strip().splitlines() or ["nothing was said"]
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"the process ended with {how}: {last[-1]}"

    def end(self) -> None:
        """No more cases: the process ends, or is ended."""
        if self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except BrokenPipeError:  # it is gone already
                self.lives = False
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()
