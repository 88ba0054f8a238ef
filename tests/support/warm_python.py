"""Tests start many Pythons, and each would import torch and its compiler anew: 4 seconds of CPU time.

:func:`install` makes ``subprocess`` ask ``warm_server.py``, a process that has imported them, to fork such a child. It
is a real process of its own with the descriptors, folder, environment, session and parent that it was started with, and
it imports the package under test by itself. What would not be the same starts as ever: interpreter options other than
``-u`` and ``-I``, another user, code to run before, and an environment that torch or Python read when they start.
``PYTHONPATH`` may differ: the child sets up its import path from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_READ_AT_START = (
    *("TORCH", "PYTORCH", "PYTHON", "ATEN", "OMP_", "GOMP", "KMP_", "MKL", "OPENBLAS", "LD_", "LC_", "LANG", "TRITON"),
    *("CUDA", "MPL", "NUMEXPR"),
)
"""Beginnings of variables that take effect when Python, torch or another preloaded package starts."""
_READ_LATER = {"TORCHINDUCTOR_CACHE_DIR", "TORCH_COMPILE_DEBUG_DIR", "PYTHONPATH", "MPLBACKEND"}
_PR_SET_CHILD_SUBREAPER = 36
_cold = [0]
_PYTHON = sys.executable


@contextmanager
def cold_interpreters() -> Iterator[None]:
    """Inside the block every Python is started in the usual way: for tests of what is imported, and when."""
    _cold[0] += 1
    try:
        yield
    finally:
        _cold[0] -= 1


class WarmServer:
    """The server: the one at the other end of ``line``, or one that is started with the first request."""

    def __init__(self, line: socket.socket | None = None) -> None:
        self._line = line
        self.environ = dict(os.environ) if line is not None else {}

    def start(self) -> None:
        """Start it, with this process's environment."""
        near, far = socket.socketpair()
        self.environ = dict(os.environ)
        with far, cold_interpreters():
            # Its standard streams are nobody's: pytest would wait for the end of pipes that it holds.
            command = [_PYTHON, str(Path(__file__).with_name("warm_server.py")), str(far.fileno())]
            self._process = subprocess.Popen(
                command,
                pass_fds=[far.fileno()],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._line = near

    def fork(self, request: dict[str, Any], descriptors: list[int]) -> int:
        """Have a child forked; answers with its process id. The child is this process's own."""
        if self._line is None:
            self.start()
        assert self._line is not None
        be_subreaper(True)
        try:
            socket.send_fds(self._line, [json.dumps(request).encode() + b"\n"], descriptors)
            answer = b""
            while not answer.endswith(b"\n"):
                if not (part := self._line.recv(100)):
                    raise RuntimeError(f"{Path(__file__).with_name('warm_server.py')} has ended")
                answer += part
            child = int(answer)
            _wait_until_adopted(child)
        finally:
            be_subreaper(False)
        return child


def be_subreaper(wanted: bool) -> None:
    """Whether orphans below this process become its children; only while a child is forked."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _wait_until_adopted(child: int) -> None:
    while True:
        text = Path(f"/proc/{child}/stat").read_text()
        if int(text.rpartition(")")[2].split()[1]) == os.getpid():
            return
        os.sched_yield()


def differs_at_start(environ: Mapping[str, str], server: Mapping[str, str]) -> bool:
    """Whether an interpreter with that environment would start otherwise than the server did."""
    changed = {name for name in {*environ, *server} if environ.get(name) != server.get(name)}
    return any(name.startswith(_READ_AT_START) for name in changed - _READ_LATER)


def install(server: WarmServer | None = None) -> None:
    """From now on this process's Pythons come from the server. On systems without subreapers nothing changes."""
    original: Callable[..., None] = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    if not sys.platform.startswith("linux") or original.__module__ == __name__:
        return
    signature = inspect.signature(original)
    server = server or WarmServer()

    def execute_child(self: subprocess.Popen[Any], *arguments: Any) -> None:
        call = signature.bind(self, *arguments).arguments
        if (request := request_for(call, server)) is None:
            original(self, *arguments)
            return
        ends = [call["p2cread"], call["c2pwrite"], call["errwrite"]]
        standard = [end if end != -1 else number for number, end in enumerate(ends)]
        self.pid = server.fork(request, [*standard, *call["pass_fds"]])
        if request["start_new_session"]:
            wait_for_session(self.pid)
        self._child_created = True  # type: ignore[attr-defined]
        self._close_pipe_fds(*(call[name] for name in _PIPES))  # type: ignore[attr-defined]

    subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]


def wait_for_session(pid: int, seconds: float = 5.0) -> None:
    """Return when a child has a session of its own, as it has from the first moment where it is a new interpreter.

    Jupyter interrupts the group that a kernel is in when its pid is known: that would be ours.
    """
    until = time.monotonic() + seconds
    with contextlib.suppress(ProcessLookupError):
        while os.getpgid(pid) == os.getpgid(0) and time.monotonic() < until:
            time.sleep(0.001)


_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_AS_USUAL = {"preexec_fn": None, "shell": False, "gid": None, "gids": None, "uid": None, "umask": -1}


def request_for(call: Mapping[str, Any], server: WarmServer) -> dict[str, Any] | None:
    """What to send to the server; None where the child would not be the same."""
    command = call["args"]
    if _cold[0] or isinstance(command, str | bytes | os.PathLike):
        return None
    flags, arguments = _split([os.fsdecode(part) for part in command])
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in {"-c", "-m"}):
        return None
    if any(call[name] != usual for name, usual in _AS_USUAL.items()) or call.get("process_group", -1) != -1:
        return None
    program = arguments[1] if arguments[0] == "-m" else Path(arguments[0]).name
    if program in _NEED_NO_TORCH:
        return None
    environ = {os.fsdecode(name): os.fsdecode(value) for name, value in (call["env"] or os.environ).items()}
    if differs_at_start(environ, server.environ or os.environ):
        return None
    return {
        "arguments": arguments,
        "flags": flags,
        "cwd": os.fspath(call["cwd"] or Path.cwd()),
        "env": environ,
        "start_new_session": bool(call["start_new_session"]),
        "descriptors": [0, 1, 2, *call["pass_fds"]],
        "parent": os.getpid(),
        "passes_on": program in _START_PYTHONS or _WORKER_OF_XDIST in arguments,
    }


def _split(command: list[str]) -> tuple[list[str], list[str]]:
    """Interpreter options and the rest of a command of this Python; no rest where it is another program."""
    if command[0] == str(Path(_PYTHON).with_name("inductor-debug")):
        return [], command
    if command[0] != _PYTHON:
        return [], []
    return (command[1:2], command[2:]) if command[1:2] in (["-u"], ["-I"]) else ([], command[1:])


_NEED_NO_TORCH = {"ruff", "mypy", "pip", "build"}
"""Modules that import no torch, and so gain nothing."""
_START_PYTHONS = {
    "ipykernel_launcher",
    "jupyterlab",
    "pytest",
    "inductor-debug",
    "inductor_debug_jupyter",
    "inductor_debug_jupyter.benchmarks",
    "tests.proofs",
}
"""Programs that start kernels and workers."""
_WORKER_OF_XDIST = "import sys;exec(eval(sys.stdin.readline()))"
"""The code with which execnet starts a worker of pytest-xdist, whose tests start Pythons."""
