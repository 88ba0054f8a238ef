"""The caller's side: start the worker process, send it requests, and record how it ended if it did.

The process is a new interpreter with the caller's ``sys.path`` and working folder, in a process group of its own and
behind a :mod:`subreaper <inductor_debug_jupyter.pipeline.isolation.subreaper>`, so that whatever it started is killed
with it. The last lines that it prints are kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from inductor_debug_jupyter.pipeline.interrupts import held_back
from inductor_debug_jupyter.pipeline.isolation import running_op
from inductor_debug_jupyter.pipeline.isolation.limits import START_SECONDS, Limits
from inductor_debug_jupyter.pipeline.isolation.values import Packer, Unpacker
from inductor_debug_jupyter.pipeline.isolation.wire import GarbledError, GoneError, Line, Message, TooLateError
from inductor_debug_jupyter.pipeline.records import CrashKind, CrashRecord
from inductor_debug_jupyter.pipeline.settings import variables_in_force

_BOOT = (
    "import json, runpy, sys; path, keeper, handler, line, progress, memory, caller = json.loads(sys.argv[1]); "
    "parent = runpy.run_path(keeper)['keep'](line, caller); sys.path[:] = path; "
    "from inductor_debug_jupyter.pipeline.isolation.child import main; main(handler, line, progress, memory, parent)"
)
_KEEPER = Path(__file__).with_name("subreaper.py")
_TAIL_LINES = 30
_LONGEST_LINE = 300
_CRASH_KINDS: dict[type, CrashKind] = {GoneError: "signal", TooLateError: "timeout", GarbledError: "protocol"}
_END_SECONDS = 5.0
"""Seconds for a process that closed its connection to end."""
_NO_MEMORY = re.compile(r"MemoryError|bad_alloc|can't allocate memory|[Cc]annot allocate memory|not enough memory")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request: a value, or what the handler raised (``error`` is its class, ``message`` its text)."""

    value: Any = None
    error: str = ""
    message: str = ""
    op: str = ""
    trace: str = ""
    seconds: float = 0.0


class Worker:
    """A process that serves one handler. It starts with the first request, and again after a crash.

    Args:
        handler: the import string of a class whose methods may be called.
        limits: time and memory.
        name: the backend's name in crash records.
    """

    def __init__(self, handler: str, limits: Limits | None = None, *, name: str = "") -> None:
        self.handler = handler
        self.limits = limits or Limits()
        self.name = name or handler
        self.generation = 0
        self._lock = threading.RLock()
        self._child: _Child | None = None

    def ask(self, method: str, *values: Any, phase: str = "", graph: str = "") -> Answer | CrashRecord:
        """Call a method of the handler in the worker process.

        Raises:
            CannotSendError: a value cannot be sent to another process.
        """
        packer = Packer("an argument")
        written = packer.pack(list(values))
        entries, blobs = packer.memory()
        body = {"method": method, "values": written, "tensors": entries, "seconds": self.limits.seconds}
        with self._lock:
            return self._exchange(Message(body, blobs), phase or method, graph)

    def _exchange(self, request: Message, phase: str, graph: str) -> Answer | CrashRecord:
        started = time.monotonic()
        child, failure = self._running()
        if failure is not None:
            return self._buried(child, failure, "start", "", time.monotonic() - started)
        started = time.monotonic()
        try:
            until = started + self.limits.seconds
            child.line.send(request, until)
            reply = child.line.receive(until)
        except (GoneError, TooLateError, GarbledError) as error:
            return self._buried(child, _CRASH_KINDS[type(error)], phase, graph, time.monotonic() - started)
        except BaseException:  # above all KeyboardInterrupt: the user wants it to end
            self.close()
            raise
        seconds = time.monotonic() - started
        try:
            answer = _answer(reply, seconds)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError):  # foreign code wrote into the line
            return self._buried(child, "protocol", phase, graph, seconds)
        if answer.error and _NO_MEMORY.search(f"{answer.error}: {answer.message}"):
            return self._buried(child, "out_of_memory", phase, graph, seconds, f"{answer.error}: {answer.message}")
        return answer

    def _running(self) -> tuple[_Child, CrashKind | None]:
        """The process, started where there is none; and how it failed to start."""
        if self._child is not None and self._child.process.poll() is None:
            return self._child, None
        self.close()
        self.generation += 1
        with held_back():  # Ctrl-C in between would leave a process that close() does not know
            self._child = _Child(self.handler, self.limits.memory)
        try:
            ready = self._child.line.receive(time.monotonic() + START_SECONDS)
            self._child.pid = ready.body.get("pid", self._child.pid)
        except (GoneError, TooLateError, GarbledError) as error:
            return self._child, _CRASH_KINDS[type(error)]
        except BaseException:
            self.close()
            raise
        return self._child, None

    def _buried(
        self, child: _Child, kind: CrashKind, phase: str, graph: str, seconds: float, message: str = ""
    ) -> CrashRecord:
        """End what is left of the process; the record of how it ended."""
        if kind == "signal":
            child.wait(_END_SECONDS)
        code = child.process.poll()
        op = child.op()
        self.close()
        written = "\n".join(filter(None, [child.tail(), message]))
        sent = -code if code is not None and code < 0 else 0
        if kind == "signal":
            kind = _kind_of(code, written, limited=self.limits.memory is not None)
        limit = f"{START_SECONDS if phase == 'start' else self.limits.seconds:g} s" if kind == "timeout" else ""
        if kind == "out_of_memory" and self.limits.memory is not None:
            limit = f"{self.limits.memory / 1024**2:g} MiB"
        return CrashRecord(
            kind=kind,
            backend=self.name,
            graph=graph,
            phase=phase,
            op=op,
            signal=_signal_name(sent),
            exit_code=code if code is not None and code >= 0 else None,
            seconds=seconds,
            limit=limit,
            stderr=written,
        )

    @property
    def pid(self) -> int | None:
        """The id of the process, while there is one."""
        return self._child.pid if self._child is not None else None

    def close(self) -> None:
        """End the process and everything that it started."""
        with held_back():
            child, self._child = self._child, None
            if child is not None:
                child.end()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Child:
    """The process, its connection, and the last lines that it printed."""

    def __init__(self, handler: str, memory: int | None) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="inductor-debug-"))
        self._progress = self._folder / "progress"
        self._progress.write_bytes(bytes(running_op.SIZE))
        near, far = socket.socketpair()
        try:
            place = str(self._progress)
            arguments = [sys.path, str(_KEEPER), handler, far.fileno(), place, memory or 0, os.getpid()]
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own code
                [sys.executable, "-u", "-c", _BOOT, json.dumps(arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables_in_force()},
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
        finally:
            far.close()
        self.pid = self.process.pid
        """The worker's, once its first message has arrived; until then the subreaper's."""
        self.line = Line(near, lambda: self.process.poll() is None)
        self._written: deque[str] = deque(maxlen=_TAIL_LINES)
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=_keep_tail, args=(self.process.stdout, self._written), daemon=True)
        self._reader.start()
        # Runs also when the worker is not closed: at exit, and when it is garbage.
        self.end = weakref.finalize(self, _end, self.process, near, self._folder)

    def wait(self, seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def op(self) -> str:
        """The op that was running."""
        return running_op.read(self._progress)

    def tail(self) -> str:
        """The end of what it wrote; called when the process has ended."""
        self._reader.join(1.0)
        return "\n".join(self._written).strip()


def _end(process: subprocess.Popen[bytes], near: socket.socket, folder: Path) -> None:
    near.close()
    if sys.platform == "linux":
        process.terminate()  # the subreaper kills the worker and all that it started, and exits
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    if sys.platform != "linux" or process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    (folder / "progress").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _keep_tail(stream: IO[bytes], lines: deque[str]) -> None:
    """Read everything, so that the process never blocks on a full pipe, and keep the last lines."""
    with contextlib.suppress(OSError, ValueError), stream:
        while line := stream.readline(_LONGEST_LINE * 4):
            lines.append(line.decode(errors="replace").rstrip("\r\n")[:_LONGEST_LINE])


def _answer(reply: Message, seconds: float) -> Answer:
    if (error := reply.body.get("error")) is not None:
        return Answer(None, error["type"], error["message"], error["op"], error["trace"], seconds)
    value = Unpacker(reply.body["tensors"], reply.blobs).unpack(reply.body["value"])
    return Answer(value, seconds=seconds)


def _kind_of(code: int | None, written: str, *, limited: bool) -> CrashKind:
    if code is not None and code >= 0:
        return "exit"
    if limited and _NO_MEMORY.search(written):
        return "out_of_memory"
    return "killed" if code == -signal.SIGKILL else "signal"


def _signal_name(number: int) -> str:
    if not number:
        return ""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
