"""Fix-its as a diff of the user's source; applied, it gives the same findings as the rewrite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt
from inductor_debug_jupyter.pipeline.fixits.patch import patch_of
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite

SOURCE = """%%inductor_debug --target stick128
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(784, 100)  # 784 pixels
        self.down = nn.Linear(100, 10)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))

net = Net()
x = torch.randn(4, 784)
out = net(x)
"""


def pad(size: int, to: int) -> FixIt:
    return FixIt("pad", f"pad {size} to {to}", "", Rewrite(pads={size: to}))


def titles(source: str, folder: Path) -> list[str]:
    file = folder / "cell.py"
    file.write_text(source.replace("%%", "# %%"), encoding="utf-8")
    space: dict[str, Any] = {}
    with capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=str(folder)) as session:
        exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), space)
    titles.session = session  # type: ignore[attr-defined]
    return [each.title for each in session.findings]


def test_the_patch_gives_the_same_findings_as_the_rewrite(tmp_path: Path) -> None:
    assert len(titles(SOURCE, tmp_path)) == 3
    result = titles.session.fix_all()  # type: ignore[attr-defined]
    assert result.accepted
    assert result.trial is not None
    patch = patch_of(result.fixits, {"cell": SOURCE})
    assert patch.unwritten == ()
    assert titles(patch.texts["cell"], tmp_path) == [each.title for each in result.trial.after.findings] == []


def test_only_numbers_of_the_program_change() -> None:
    patch = patch_of([pad(784, 832)], {"In [2]": SOURCE})
    assert "+        self.up = nn.Linear(832, 100)  # 784 pixels\n" in patch.diff
    assert "+x = torch.randn(4, 832)\n" in patch.diff
    assert patch.diff.startswith("--- a/In [2]\n+++ b/In [2]\n")
    assert patch.texts["In [2]"].count("784") == 1, "the comment stays"


def test_what_cannot_be_written_is_said() -> None:
    gone = FixIt("decompose", "take gelu apart", "", Rewrite(decompose=frozenset({"gelu"})))
    patch = patch_of([pad(48, 128), gone], {"In [2]": SOURCE})
    assert patch.diff == ""
    assert patch.unwritten == (
        "pad 48 to 128: 48 does not stand in your source: it is computed, or a library's",
        "take gelu apart: torch takes the op apart; there is no other way to call it",
    )


def test_dtypes_and_copies() -> None:
    source = "x = torch.ones(3, dtype=torch.float64)\ny = net.double()(x)\nz = torch.relu(x.transpose(0, 1))\n"
    cast = FixIt("cast", "cast", "", Rewrite(casts={"float64": "float32"}))
    copy = FixIt("contiguous", "copy", "", Rewrite(contiguous=frozenset({"layer:relu"})))
    patch = patch_of([cast, copy], {"In [1]": source})
    assert patch.texts["In [1]"].splitlines() == [
        "x = torch.ones(3, dtype=torch.float32)",
        "y = net.float()(x)",
        "z = torch.relu(x.transpose(0, 1).contiguous())",
    ]


def test_a_source_that_is_no_python_is_left_alone() -> None:
    assert patch_of([pad(784, 832)], {"notes": "784 = = 3"}).diff == ""
