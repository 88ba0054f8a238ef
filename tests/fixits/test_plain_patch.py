"""Fix-its in the sizes and dtypes of the user's source: all of the change, or none of it."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt
from inductor_debug_jupyter.pipeline.fixits.patch_plain import plain_patch
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite

SOURCE = """%%inductor_debug --target stick128
PIXELS = 784
STEPS = 10

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(PIXELS, 100)  # 784 pixels
        self.down = nn.Linear(100, out_features=10)
        self.conv = nn.Conv2d(3, 100, kernel_size=3)

x = torch.randn(4, 784)
for _ in range(STEPS):
    out = Net()(x)
"""


def pad(size: int, to: int) -> FixIt:
    return FixIt("pad", f"pad {size} to {to}", "", Rewrite(pads={size: to}))


def test_only_sizes_change() -> None:
    patch = plain_patch([pad(784, 832), pad(10, 64), pad(3, 64)], {"In [2]": SOURCE})
    assert patch.unwritten == ()
    assert patch.diff.startswith("--- a/In [2]\n+++ b/In [2]\n")
    text = patch.texts["In [2]"]
    assert "PIXELS = 832\nSTEPS = 10\n" in text
    assert "nn.Linear(PIXELS, 100)  # 784 pixels\n" in text
    assert "nn.Linear(100, out_features=64)\n" in text
    assert "nn.Conv2d(64, 100, kernel_size=3)\n" in text
    assert "x = torch.randn(4, 832)\n" in text


def test_half_a_change_is_none() -> None:
    gone = FixIt("decompose", "take gelu apart", "", Rewrite(decompose=frozenset({"gelu"})))
    patch = plain_patch([pad(784, 832), pad(48, 128), gone], {"In [2]": SOURCE})
    assert (patch.diff, patch.texts) == ("", {})
    assert patch.unwritten == (
        "pad 48 to 128: 48 stands in no layer of your source: it is computed, or a library's",
        "take gelu apart: torch takes the op apart; there is no other way to call it",
    )


def test_an_input_alone_is_not_made_larger() -> None:
    patch = plain_patch([pad(784, 832)], {"In [1]": "x = torch.randn(4, 784)\nout = library.Model()(x)\n"})
    assert patch.diff == ""
    assert len(patch.unwritten) == 1


def test_dtypes_and_copies() -> None:
    source = "x = torch.ones(3, dtype=torch.float64)\ny = net.double()(x)\nz = torch.relu(x.transpose(0, 1))\n"
    cast = FixIt("cast", "cast", "", Rewrite(casts={"float64": "float32"}))
    copy = FixIt("contiguous", "copy", "", Rewrite(contiguous=frozenset({"layer:relu"})))
    patch = plain_patch([cast, copy], {"In [1]": source})
    assert patch.texts["In [1]"].splitlines() == [
        "x = torch.ones(3, dtype=torch.float32)",
        "y = net.float()(x)",
        "z = torch.relu(x.transpose(0, 1).contiguous())",
    ]


def test_a_source_that_is_no_python_is_left_alone() -> None:
    assert plain_patch([pad(784, 832)], {"notes": "784 = = 3"}).diff == ""
