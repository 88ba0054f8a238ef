"""Run a script in a fresh interpreter, before the user gets it as a repro.

A failure in a process that has compiled, patched and seeded a lot may not show in a fresh one; a script that does not
fail there is no repro.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from inductor_debug_jupyter.pipeline.errors import ReproError
from inductor_debug_jupyter.pipeline.isolation import DEFAULT_SECONDS


def check_shows_alone(script: str, seconds: float = DEFAULT_SECONDS) -> float:
    """Run a script in a fresh interpreter with this one's import path; returns how many seconds it took.

    Raises:
        ReproError: it did not end with exit code 0, which means that the failure shows.
    """
    with tempfile.TemporaryDirectory(prefix="inductor_debug_repro_") as folder:
        path = Path(folder) / "repro.py"
        path.write_text(script, encoding="utf-8")
        importable = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
        started = time.monotonic()
        process = subprocess.Popen(  # noqa: S603 - our own script
            [sys.executable, str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONPATH": importable},
            start_new_session=True,
        )
        try:
            printed, complained = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ReproError(f"no repro: the reduced script had not ended after {seconds:g} s by itself") from None
        finally:  # also after Ctrl-C; a script of a hang has a process of its own
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
            process.wait()
        taken = time.monotonic() - started
    if code := process.returncode:
        says_no = code == 1 and bool(printed.strip())
        lines = [line.strip() for line in (printed if says_no else complained).splitlines() if line.strip()]
        last = lines[-1] if lines else "without a word"
        how = f"says «{last}»" if says_no else f"ended with exit code {code}: {last}"
        raise ReproError(
            "no repro: what fails here does not fail in a fresh interpreter, where the reduced script "
            f"{how}; what makes it fail is set up in this process"
        )
    return taken
