"""The keeper: the process between the caller and the worker, which kills whatever the worker started.

A process group does not hold what foreign code starts: ``setsid`` leaves it, and a daemon whose parent is gone belongs
to init. So the process that the caller starts forks once, before anything of ours (and with it torch) is imported. The
child becomes the worker. The parent, the keeper, takes ``PR_SET_CHILD_SUBREAPER``: from then on every descendant that
loses its parent becomes the keeper's own child, whatever session it made for itself. When the worker ends, when the
caller asks (SIGTERM) or when the caller is gone, the keeper kills its descendants until none is left, and then ends as
the worker did: with its exit code, or of its signal. Only descendants of the keeper are ever killed.

This needs Linux (``prctl`` and ``/proc``). Elsewhere there is no keeper: the worker's process group is killed, and a
process that made a session of its own stays.

The caller's boot line runs this file by its path: it must import nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from typing import NoReturn

_PR_SET_CHILD_SUBREAPER = 36
_CALLER_CHECK = 2.0
"""Seconds between two checks that the caller still runs."""
_PATIENCE = 4.0
"""Seconds to wait for killed processes; one that hangs in the kernel longer is given up."""


def keep(descriptor: int, caller: int) -> int:
    """Fork. Returns in the worker only, with the id of the process that it must not outlive.

    Args:
        descriptor: the connection to the caller, which only the worker keeps open.
        caller: the id of the process that started this one.
    """
    if sys.platform != "linux" or ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        return caller
    keeper = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    if (worker := os.fork()) != 0:
        os.close(descriptor)
        _watch(worker, caller)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return keeper


def _watch(worker: int, caller: int) -> NoReturn:
    """Wait until the worker ends, the caller sends SIGTERM or the caller ends; then kill everything and exit."""
    ended: dict[int, int] = {}
    while os.getppid() == caller and worker not in ended:
        received = signal.sigtimedwait({signal.SIGTERM, signal.SIGCHLD}, _CALLER_CHECK)
        if received is not None and received.si_signo == signal.SIGTERM:
            break
        _reap(ended)
    _end_descendants(ended)
    _leave_as(ended.get(worker, signal.SIGKILL))


def _reap(ended: dict[int, int]) -> bool:
    """Take the status of every child that has ended; whether there are children left."""
    try:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    except ChildProcessError:
        return False
    return True


def _end_descendants(ended: dict[int, int]) -> None:
    """Kill until no descendant is left; one whose parent dies becomes a child of this process, and is found again."""
    until = time.monotonic() + _PATIENCE
    while _reap(ended) and time.monotonic() < until:
        for process in _descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.005)


def _descendants(ancestor: int) -> list[int]:
    """Children, their children and so on, as ``/proc`` has them now."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - hundreds of names at each call
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                parent = int(file.read().rpartition(b")")[2].split()[1])  # a command's name may hold spaces and )
                children.setdefault(parent, []).append(int(name))
    found, new = [], children.get(ancestor, [])
    while new:
        found += new
        new = [child for process in new for child in children.get(process, [])]
    return found


def _leave_as(status: int) -> NoReturn:
    """End this process as the worker ended."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):  # SIGKILL has no handler to put back
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
