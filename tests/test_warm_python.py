"""A Python that is forked from the warm server is what it would be if it had been started in the usual way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm_python

SHOW = "import json, os, sys; print(json.dumps([sys.path, sys.argv, os.getcwd(), dict(os.environ), __name__]))"


def started(*arguments: str, **environ: str) -> Any:
    """Import path, arguments, folder, environment and name of a Python that is started with those arguments."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=True)
    path, *others = json.loads(done.stdout)
    # torch imports setuptools, which puts its own copies of packages at the end.
    return [each for each in path if not each.endswith("_vendor")], *others


@pytest.mark.parametrize("path", ["", "elsewhere", f"/nowhere{os.pathsep}{Path(json.__file__).parents[1]}"])
@pytest.mark.parametrize("way", [("-c", SHOW, "x"), ("-I", "-c", SHOW), ("show.py", "x"), ("-I", "show.py")])
def test_import_path_and_environment_are_those_of_a_cold_start(path: str, way: tuple[str, ...]) -> None:
    Path("show.py").write_text(SHOW)
    warm = started(*way, PYTHONPATH=path)
    with warm_python.cold_interpreters():
        assert warm == started(*way, PYTHONPATH=path)
