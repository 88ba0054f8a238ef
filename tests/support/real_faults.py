"""Real faults for child processes: a small disk, a read-only folder. Nothing here is simulated.

:func:`in_namespace` runs a script with this module's names in a child that has a mount namespace of its own, where
:func:`make_small_disk` mounts a tiny tmpfs and :func:`make_read_only` remounts a folder read-only; root cannot write
there either, and both vanish with the child. Where mounting is forbidden (a container without the right, no Linux) they
take the next best thing that the kernel enforces: a limit on file sizes, and another user's permissions. The script's
first line of output says which it was.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import inductor_debug_jupyter
from inductor_debug_jupyter.pipeline.errors import StoreError
from inductor_debug_jupyter.pipeline.records import CompileCapture, SessionRecord
from inductor_debug_jupyter.pipeline.store import ROOMS, ArtifactStore

__all__ = [
    "ROOMS",
    "ArtifactStore",
    "StoreError",
    "assert_consistent",
    "in_namespace",
    "leftovers",
    "make_read_only",
    "make_room",
    "make_small_disk",
    "record",
    "script",
]


def record(name: str, text: str) -> SessionRecord:
    """A small session with one text of its own and one that all share."""
    capture = CompileCapture("0/0", texts={"dynamo": text, "code": "shared by all"})
    return SessionRecord(name, "2026-01-01", "cell", "default", False, "2.13", "0.1", (capture,))


def leftovers(folder: Path) -> list[str]:
    """Temporary files that were not cleared away."""
    return [path.name for room in ROOMS for path in (folder / room).glob(".*")]


def assert_consistent(store: ArtifactStore) -> None:
    """Every row's file has the content it should have, and every session loads."""
    for artifact in store.artifacts():
        assert hashlib.sha256((store.folder / artifact.path).read_bytes()).hexdigest() == artifact.sha256
    for session in store.sessions():
        assert store.load(session.id).id == session.id


def script(body: str) -> list[str]:
    """The command that runs ``body`` with the names of this module."""
    return [sys.executable, "-c", "from real_faults import *\n" + textwrap.dedent(body)]


def environment() -> dict[str, str]:
    """The environment in which :func:`script` finds this module."""
    package = Path(inductor_debug_jupyter.__file__).parents[1]  # the one under test, wherever another is installed
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(package)])}


def in_namespace(body: str, seconds: float = 120) -> str:
    """Run ``body`` where it may mount; what it printed. Its own failure is the test's."""
    done = subprocess.run(
        [*_unshare(), *script(body)], capture_output=True, text=True, timeout=seconds, env=environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@functools.cache
def _unshare() -> tuple[str, ...]:
    """The command that gives a process mounts of its own: as root, or with user namespaces; empty if there is none."""
    for command in (("unshare", "--mount"), ("unshare", "--mount", "--map-root-user")):
        try:
            probe = (*command, "mount", "-t", "tmpfs", "none", "/mnt")
            subprocess.run(probe, check=True, capture_output=True, timeout=30)
        except (OSError, subprocess.SubprocessError):
            continue
        return command
    return ()


def _mount(*arguments: str) -> bool:
    """Mount something, if this process has mounts of its own."""
    own, of_parent = Path("/proc/self/ns/mnt"), Path(f"/proc/{os.getppid()}/ns/mnt")
    if not own.is_symlink() or own.readlink() == of_parent.readlink():
        return False
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


def make_small_disk(folder: str, kib: int) -> Path:
    """A file system of so many KiB; without the right to mount, files of at most 4000 bytes."""
    if _mount("-t", "tmpfs", "-o", f"size={kib}k", "none", folder):
        print(f"tmpfs of {kib} KiB", flush=True)
    else:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
        print("RLIMIT_FSIZE of 4000 bytes", flush=True)
    return Path(folder)


def make_room(folder: Path) -> None:
    """The disk is big enough again."""
    if not _mount("-o", "remount,size=4m", str(folder)):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def make_read_only(folder: Path) -> None:
    """Nobody can write below the folder any more."""
    if _mount("--bind", str(folder), str(folder)) and _mount("-o", "remount,bind,ro", str(folder)):
        print("read-only mount", flush=True)
        return
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.geteuid() == 0:
        os.seteuid(65534)  # root may write everywhere
    print(f"permissions, as user {os.geteuid()}", flush=True)
