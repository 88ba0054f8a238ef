"""``panel``: the panel in JupyterLab and Chromium, from a model's training step to a graph of 100,000 nodes.

In the same run the same graph goes to plain ``dot`` and to Model Explorer, each with a time limit.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from inductor_debug_jupyter.benchmarks.command_line import one_of
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.options import whole_number
from inductor_debug_jupyter.pipeline.records import GraphRecord, load_session
from tests.proofs.lab import INSTALL, JupyterLab, find_chromium
from tests.proofs.panel_page import LabWindow, Panel, chromium
from tests.proofs.panel_peers import ModelExplorer, plain_dot
from tests.proofs.synthetic import synthetic_capture

_LOWER = ("aot", "inductor")
_SETUP = "%load_ext inductor_debug_jupyter\nimport time\nimport torch"
_BERT = """from transformers import BertConfig, BertForMaskedLM
torch.manual_seed(0)
model = BertForMaskedLM(BertConfig({sizes})).train()
tokens = torch.randint(0, 1000, (2, 64))"""
_TRAIN = """%%inductor_debug --as session --lower {lower} --artifacts {folder}
model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss.backward()
ended = time.time()
nodes = 0"""
_SYNTHETIC = """import sys
sys.path.insert(0, {root!r})
from tests.proofs.synthetic import synthetic_capture
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.session import DebugSession
captured = synthetic_capture({size})
session = DebugSession.of_record(SessionRecord("s", "", "synthetic", "", False, "", "", captures=(captured,)))"""
_SHOW = "nodes = {size}\nended = time.time()\nsession.panel().show()"
_MANY = "nodes = {size}\nended = time.time()\nfor _ in range({panels}):\n    display(session.panel())"
_WIDGETS = "len(__import__('ipywidgets').widgets.widget._instances)"
_MOST_HEAP = 200
"""MB of JavaScript heap with every panel in the page."""
_SMALL = "num_hidden_layers=3, hidden_size=32, num_attention_heads=2, intermediate_size=64, vocab_size=1000"
_COMPILE_SECONDS = 560.0


@dataclass(frozen=True, slots=True)
class Goal:
    """The most that is allowed: seconds until usable and from click to highlight, bytes in the notebook."""

    usable: float
    told: float = 0.2
    notebook_bytes: int = 300_000


@dataclass(frozen=True, slots=True)
class Result:
    """One graph: ours, and what others made of it (seconds, or why there is no figure)."""

    name: str
    panel: Panel
    goal: Goal
    dot: float | str
    explorer: float | str

    @property
    def held(self) -> bool:
        """Whether every goal holds."""
        panel, goal = self.panel, self.goal
        return panel.usable <= goal.usable and panel.told <= goal.told and panel.notebook_bytes <= goal.notebook_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--graphs", default="bert,10000,100000", metavar="LIST", help="bert, or sizes; default bert,10000,100000"
    )
    parser.add_argument("--lower", default="inductor", metavar="STAGE", help="for bert: aot or inductor (default)")
    parser.add_argument("--small", action="store_true", help="a tiny bert, to try this out")
    parser.add_argument("--peer-seconds", default="60", metavar="N", help="time limit of dot and Model Explorer; 60")
    parser.add_argument(
        "--many", default="50", metavar="N", help="so many panels in one notebook; default 50, 0 for none"
    )
    parser.add_argument("--no-peers", action="store_true", help="measure the panel only")


def run(args: argparse.Namespace) -> int:
    """Measure, print the table; 1 when a goal is missed."""
    cases = [_case(part.strip()) for part in args.graphs.split(",")]
    lower = one_of(args.lower, "--lower", _LOWER)
    limit = whole_number(args.peer_seconds, "--peer-seconds", 1)
    many = whole_number(args.many, "--many", 0)
    executable = browser_for("playwright", *(["transformers"] if "bert" in cases else []))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers and browsers end with us
    results, heap = [], 0.0
    with tempfile.TemporaryDirectory(prefix="inductor-debug-panel-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        with Progress(len(cases) * 3 + 1) as progress:
            progress.step("Model Explorer is being installed")
            explorer = None if args.no_peers else ModelExplorer(folder, executable)
            for case in cases:
                progress.step(f"{case}: the panel")
                panel, graph = _measured(case, folder, executable, lower, small=args.small)
                progress.step(f"{case}: dot")
                dot = plain_dot(graph, limit) if explorer else "–"
                progress.step(f"{case}: Model Explorer")
                other = explorer.seconds(graph, limit) if explorer else "–"
                results.append(Result(_name(case, panel), panel, Goal(usable=1.0), dot, other))
            if many:
                heap = _heap_of(many, folder, executable)
    _print(results)
    return 0 if all(result.held for result in results) and heap <= _MOST_HEAP else 1


def _heap_of(panels: int, folder: Path, executable: str) -> float:
    """Show so many panels of 1,000 nodes in one notebook; answers the MB of JavaScript heap in use."""
    lab = JupyterLab(folder / "lab-many")
    lab.start()
    setup = [_SETUP, _SYNTHETIC.format(size=1_000, root=str(Path(__file__).parents[2]))]
    try:
        with chromium(executable) as browser:
            window = LabWindow(lab, browser.new_page(viewport={"width": 1400, "height": 1000}))
            window.run("one", [*setup, _MANY.format(size=1_000, panels=1)], seconds=_COMPILE_SECONDS)
            window.settle()
            widgets, one = window.python(_WIDGETS), window.heap()
            window.run("many", [*setup, _MANY.format(size=1_000, panels=panels)], seconds=_COMPILE_SECONDS)
            window.page.wait_for_function(f"() => document.querySelectorAll('.idj-frame').length >= {panels}")
            window.settle()
            heap = window.heap()
    finally:
        lab.stop()
    print_line(
        f"{panels} panels: {_goal(heap, _MOST_HEAP)} MB of JavaScript heap, JupyterLab with it; one: {one:.0f} MB"
    )
    print_line(f"a panel is {widgets} widgets, each a comm: itself, its layout and its style at most")
    return heap


def _case(text: str) -> str:
    if text != "bert" and not (text.isdecimal() and int(text) >= 10):
        raise OptionError(f"--graphs: {text!r} is not allowed; allowed: bert, or a number of nodes from 10 up")
    return text


def browser_for(*modules: str) -> str:
    """The browser of a suite that needs these modules, too.

    Raises:
        UsageError: something is not installed; the message says what to do.
    """
    if missing := [name for name in modules if importlib.util.find_spec(name) is None]:
        raise UsageError(f"this suite needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    if (executable := find_chromium()) is None:
        raise UsageError(f"this suite needs Chromium: {INSTALL}")
    return executable


def _measured(case: str, folder: Path, executable: str, lower: str, *, small: bool) -> tuple[Panel, GraphRecord]:
    """The panel's figures and the graph that it shows; each in a JupyterLab and a browser of its own."""
    saved = folder / f"{case}.json"
    if case == "bert":
        show = _TRAIN.format(lower=lower, folder=folder / "artifacts")
        cells = [_SETUP, _BERT.format(sizes=_SMALL if small else ""), show]
    else:
        cells = [_SETUP, _SYNTHETIC.format(size=case, root=str(Path(__file__).parents[2])), _SHOW.format(size=case)]
    lab = JupyterLab(folder / f"lab-{case}")
    lab.start()
    try:
        with chromium(executable) as browser:
            window = LabWindow(lab, browser.new_page(viewport={"width": 1400, "height": 1000}))
            panel = window.measure(case, cells, seconds=_COMPILE_SECONDS)
            if case == "bert":
                window.python(f"str(session.save({str(saved)!r}))")
    finally:
        lab.stop()
    if case != "bert":
        return panel, synthetic_capture(int(case)).graphs["forward"]
    return panel, load_session(saved.read_bytes()).captures[0].graphs["forward"]


def _name(case: str, panel: Panel) -> str:
    return "BERT-base training" if case == "bert" else f"{int(case):,} nodes"


def _print(results: list[Result]) -> None:
    columns = ("", *(result.name for result in results))
    rows = {
        "cell end → panel usable, s": [_goal(each.panel.usable, each.goal.usable) for each in results],
        "click → lit and explained by Python, s": [_goal(each.panel.told, each.goal.told) for each in results],
        "click → lit, s": [f"{each.panel.click:.3f}" for each in results],
        "open the Graph tab, s": [f"{each.panel.tab:.2f}" for each in results],
        "open a box, s": [f"{each.panel.box:.2f}" for each in results],
        "notebook growth, kB": [
            _goal(each.panel.notebook_bytes / 1000, each.goal.notebook_bytes / 1000) for each in results
        ],
        "plain dot, s": [_peer(each.dot, each.panel.usable) for each in results],
        "Model Explorer, s": [_peer(each.explorer, each.panel.usable) for each in results],
    }
    print_table(columns, [(name, *cells) for name, cells in rows.items()], right=columns[1:])
    missed = [result.name for result in results if not result.held]
    print_line("Every goal holds." if not missed else f"Goals missed: {', '.join(missed)}")


def _goal(value: float, most: float) -> str:
    return f"{value:.2f} {'✓' if value <= most else '✗'} (≤ {most:g})"


def _peer(value: float | str, ours: float) -> str:
    """A peer's seconds and how they compare with ours."""
    return value if isinstance(value, str) else f"{value:.1f} ({value / ours:.1f}×)"
