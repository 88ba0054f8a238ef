"""Records a small real session for ``tests/records/recorded/``: what this release writes, for later releases to load.

::

    python tests/records/record_session.py tests/records/recorded

writes ``session_v<SCHEMA_VERSION>.json.gz`` there. Run it once, soon after SCHEMA_VERSION was raised, and never
again for that version: the file stands for what users have on their disks. Paths of the machine are replaced.
"""

from __future__ import annotations

import gzip
import logging
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.records import SCHEMA_VERSION

SOURCE = """\
import torch


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(8, 6)

    def forward(self, x):
        h = torch.relu(self.up(x))
        print("a graph break")
        return h.sum()
"""


def record(folder: Path) -> DebugSession:
    """A forward and backward with a graph break, a recompile, findings, guards, kernels and a comparison."""
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    path = folder / "small.py"
    path.write_text(SOURCE)
    namespace: dict[str, type[torch.nn.Module]] = {}
    exec(compile(SOURCE, str(path), "exec"), namespace)  # so that the source has a file of its own
    model = namespace["Small"]()
    with capture(strict=False, artifacts=str(folder / "a"), eager=True, keep_inputs=True, target="stick128") as session:
        for rows in (4, 5):
            model(torch.randn(rows, 8)).backward()
    session.diff(candidate="aot_eager")
    return session


def plain(text: str, folder: Path) -> str:
    """The text without paths of this machine."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    for place, name in (
        (str(folder), "/project"),
        (cache_dir(), "/cache"),
        (sysconfig.get_paths()["purelib"], "/site-packages"),
        (str(Path(__file__).resolve().parents[2]), "/checkout"),
        (sys.prefix, "/python"),
        (sys.base_prefix, "/python"),
    ):
        text = text.replace(place, name)
    return text


def main() -> None:
    """Write the recording."""
    target = Path(sys.argv[1]) / f"session_v{SCHEMA_VERSION}.json.gz"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        saved = record(folder).save(folder / "session.json")
        text = plain(saved.read_text(), folder)
    target.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(target, target.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
