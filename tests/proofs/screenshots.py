"""``screenshots``: every tab of the panel as a PNG, for four subjects, three widths and two themes, to be looked at.

A program sees part of what a person would: text that is cut off without a tooltip, text over text, what stands outside
of the panel, and empty panes (``screenshots_page.js``). Each of these is a line, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from inductor_debug_jupyter.benchmarks.command_line import some_of, whole_numbers
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from tests.proofs.lab import JupyterLab
from tests.proofs.panel import browser_for
from tests.proofs.panel_page import LabWindow, chromium

_SETUP = "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn\ntorch.manual_seed(0)"
SUBJECTS: dict[str, tuple[str, ...]] = {
    "vit": (
        """from transformers import ViTConfig, ViTForImageClassification
sizes = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768, "num_labels": 10}
model = ViTForImageClassification(ViTConfig(**sizes))
image = torch.randn(1, 3, 224, 224)""",
        """%%inductor_debug --target stick128 --profile --as session
with torch.no_grad():
    logits = model.eval()(image).logits""",
    ),
    "gpt2": (
        """from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=5000)).eval()
prompt = torch.randint(0, 5000, (1, 7))""",
        """%%inductor_debug --target stick128 --lower aot --as session
tokens = model.generate(prompt, max_new_tokens=6, do_sample=False, pad_token_id=0)""",
    ),
    "faulty": (
        """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(128, 256)
        self.norm = nn.LayerNorm(256)
        self.down = nn.Linear(256, 64)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.up(x))
        h = torch.clone(self.norm(h))
        return self.down(h)

net = Net()""",
        """from inductor_debug_jupyter import StickAdapter, capture
with capture(lower="aot", eager=True, keep_inputs=True, target="stick128") as session:
    net(torch.randn(8, 40, 128))
device = StickAdapter(faults=["copy-first-stick"], check=False)
session.diff(candidate=device)
session.localize(device)
session.error_budget(numerics="bfloat16")
session.prescribe(numerics="bfloat16", goal=0.8)
session""",
    ),
    "breaks": (
        """def scale(x, n, mode="a"):
    y = x * n
    if mode == "b":
        print("between")
    if y.sum() > 0:
        y = y - 1
    return y.relu()

compiled = torch.compile(scale)""",
        """%%inductor_debug --as session
for rows, mode in ((4, "a"), (7, "a"), (7, "c"), (7, "b")):
    compiled(torch.ones(rows, 3), 2, mode)""",
    ),
    "compared": (
        """from torch.nn import functional as F

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x, late):
        h = F.gelu(self.up(x))
        return x + (self.down(h).softmax(-1) if late else self.down(h).relu())

class Net(nn.Module):
    def __init__(self, late):
        super().__init__()
        self.layers, self.late = nn.ModuleList(Layer() for _ in range(12)), late

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = layer(x, self.late and number > 8)
        return x

before, after = Net(False).eval(), Net(True).eval()""",
        """%%inductor_debug --target stick128 --lower aot --no-panel --as first
with torch.no_grad():
    before(torch.randn(8, 64))""",
        """%%inductor_debug --target stick128 --lower aot --no-panel --as second
with torch.no_grad():
    after(torch.randn(8, 64))""",
        "%inductor_debug --compare first second",
    ),
}
_HEIGHT = 1700
"""So high that every panel is in sight: charts are drawn when they are."""
_SECONDS = 560.0
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--subjects", default=",".join(SUBJECTS), metavar="LIST", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--widths", default="1400,1000,700", metavar="LIST", help="of the window, in pixels")
    parser.add_argument("--themes", default=",".join(THEMES), metavar="LIST", help=f"of {', '.join(THEMES)}")
    parser.add_argument(
        "--output", default="test-artifacts/screenshots", metavar="DIR", help="default test-artifacts/screenshots"
    )


def run(args: argparse.Namespace) -> int:
    """Take the pictures, print what is wrong with them; 1 when something is."""
    subjects = some_of(args.subjects, "--subjects", SUBJECTS)
    themes = some_of(args.themes, "--themes", THEMES)
    widths = whole_numbers(args.widths, "--widths", 300)
    executable = browser_for("playwright", *(["transformers"] if {"vit", "gpt2"} & set(subjects) else []))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and browsers end with us
    output = Path(args.output)
    output.mkdir(parents=True, exist_ok=True)
    wrong: dict[str, list[str]] = {}
    taken: dict[str, int] = {}
    folder = tempfile.TemporaryDirectory(prefix="inductor-debug-", ignore_cleanup_errors=True)
    with folder, Progress(len(subjects)) as progress:
        for subject in subjects:
            progress.step(subject)
            for name, lines in _pictures(subject, Path(folder.name), executable, output, widths, themes):
                taken[subject] = taken.get(subject, 0) + 1
                wrong |= {line: [*wrong.get(line, []), name] for line in lines}
    print_table(("subject", "pictures"), [(name, str(number)) for name, number in taken.items()], right=("pictures",))
    for line, names in wrong.items():
        print_line(f"✗ {line}: {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}")
    print_line(
        f"Look at them: {output}" if wrong else f"Nothing that a program can see is wrong. Look at them: {output}"
    )
    return 1 if wrong else 0


def _pictures(
    subject: str, folder: Path, executable: str, output: Path, widths: list[int], themes: list[str]
) -> Iterator[tuple[str, list[str]]]:
    """Name of each picture, and what is wrong in it; each subject in a JupyterLab and a browser of its own."""
    lab = JupyterLab(folder / subject)
    lab.start()
    try:
        with chromium(executable) as browser:
            window = LabWindow(lab, browser.new_page(viewport={"width": widths[0], "height": _HEIGHT}))
            window.run(subject, [_SETUP, *SUBJECTS[subject]], seconds=_SECONDS)
            window.command("application:toggle-left-area")
            for theme in themes:
                window.command("apputils:change-theme", theme=THEMES[theme])
                for width in widths:
                    window.page.set_viewport_size({"width": width, "height": _HEIGHT})
                    window.settle()
                    yield from _tabs(window, f"{subject}-{width}-{theme}", output)
    finally:
        lab.stop()


def _tabs(window: LabWindow, name: str, output: Path) -> Iterator[tuple[str, list[str]]]:
    """A picture of every tab as it is now."""
    look = (files("tests.proofs") / "screenshots_page.js").read_text(encoding="utf-8").partition("\n")[2]
    frame = window.page.locator(".idj-frame").last
    for tab in frame.locator("[data-idj='tab']").evaluate_all("tabs => tabs.map(tab => tab.dataset.tab)"):
        frame.locator(f"[data-idj='tab'][data-tab='{tab}']").click()
        window.page.mouse.move(2, 2)
        window.settle()
        frame.screenshot(path=output / f"{name}-{tab}.png")
        yield f"{name}-{tab}", frame.evaluate(look)
