"""Run a script in a fresh interpreter, before the user gets it as a repro.

A failure in a process that has compiled, patched and seeded a lot may not show in a fresh one; a script that does not
fail there is no repro.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from inductor_debug_jupyter.pipeline.errors import ReproError
from inductor_debug_jupyter.pipeline.isolation import DEFAULT_SECONDS


def check_shows_alone(script: str, seconds: float = DEFAULT_SECONDS) -> str:
    """Run a script in a fresh interpreter with this one's import path; returns what it printed.

    Raises:
        ReproError: it did not end with exit code 0, which means that the failure shows.
    """
    with tempfile.TemporaryDirectory(prefix="inductor_debug_repro_") as folder:
        path = Path(folder) / "repro.py"
        path.write_text(script, encoding="utf-8")
        importable = os.pathsep.join(str(Path(each).absolute()) for each in sys.path)
        try:
            done = subprocess.run(  # noqa: S603 - our own script
                [sys.executable, str(path)],
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                env={**os.environ, "PYTHONPATH": importable},
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ReproError(f"no repro: the reduced script had not ended after {seconds:g} s by itself") from None
    if done.returncode:
        says_no = done.returncode == 1 and bool(done.stdout.strip())
        lines = [line.strip() for line in (done.stdout if says_no else done.stderr).splitlines() if line.strip()]
        last = lines[-1] if lines else "without a word"
        how = f"says «{last}»" if says_no else f"ended with exit code {done.returncode}: {last}"
        raise ReproError(
            "no repro: what fails here does not fail in a fresh interpreter, where the reduced script "
            f"{how}; what makes it fail is set up in this process"
        )
    return done.stdout
