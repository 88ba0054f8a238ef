"""TypeScript, ESLint and axe-core from npm, in pytest's cache folder, beside a copy of the panel's modules.

They are for development only. The folder is filled once for each ``package-lock.json``; processes of one run wait for
each other.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import filelock
import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECKS = ROOT / "tests" / "javascript"
MODULES = ROOT / "inductor_debug_jupyter" / "jupyter" / "static" / "panel"


def tools_folder(config: pytest.Config) -> Path:
    """The folder with ``node_modules``; what is missing on this machine fails the test in words."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            pytest.fail(f"{tool} is not on this machine: the panel's JavaScript cannot be checked", pytrace=False)
    lock = (CHECKS / "package-lock.json").read_bytes()
    assert config.cache is not None
    folder = config.cache.mkdir("javascript") / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    with filelock.FileLock(folder / "lock"):
        if not (folder / "complete").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(CHECKS / name, folder / name)
            run(folder, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", seconds=250)
            (folder / "complete").touch()
    return folder


def copy_modules(folder: Path) -> None:
    """Put the panel's modules and their tests beside the tools, where their imports find each other."""
    shutil.rmtree(folder / "panel", ignore_errors=True)
    shutil.copytree(MODULES, folder / "panel")
    for old in folder.glob("*.test.js"):
        old.unlink()
    for path in (*CHECKS.glob("*.js"), CHECKS / "tsconfig.json"):
        shutil.copy(path, folder / path.name)


def run(folder: Path, *command: str, seconds: float = 120) -> None:
    """Run a tool there; its output is the failure's message."""
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout[-8000:]}", pytrace=False)
