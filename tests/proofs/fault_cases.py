"""The cases of ``faults``: which fault is in which model and stage, what must be found; a case is tried as users would.

Each case is captured, bisected and reduced through a session. Then its script runs in an interpreter that has torch and
nothing of ours.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config as inductor_config
from torch import nn

from inductor_debug_jupyter.benchmarks.models import Built, transformers
from inductor_debug_jupyter.pipeline.minify import MinimalRepro, graphs_of
from inductor_debug_jupyter.pipeline.records import BisectRecord
from inductor_debug_jupyter.pipeline.session import DebugSession, capture
from tests.proofs import fault_plants as plants
from tests.proofs.inside_torch.planting import Place, bare_op, calls_of, place_of
from tests.proofs.localize_cases import MODELS as SEARCHED

DEVICE = "the backend"
"""The rung of a vendor's backend, which has a name of its own in each case."""
HANG_SECONDS, COMPILE_SECONDS = 15.0, 120.0
"""When a step of a reduction hangs, and one of a bisection: there Inductor compiles the whole model."""


class Mlp(nn.Module):
    """Every op of the faults once, each on a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 16)
        self.norm = nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two layers."""
        hidden = self.norm(self.first(x))
        hidden = nn.functional.silu(hidden)
        hidden = torch.tanh(hidden) + x.mean()
        hidden = torch.erf(self.second(hidden))
        return torch.clone(hidden).sigmoid()


class BrokenGpt2(nn.Module):
    """A GPT-2, a graph break, and what comes after it."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers().GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=2, use_cache=False)
        self.gpt2, self.head = transformers().GPT2Model(config), nn.Linear(32, 8)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Two graphs."""
        hidden = self.gpt2(tokens).last_hidden_state
        torch._dynamo.graph_break()
        return torch.sigmoid(self.head(hidden))


class ConvNet(nn.Module):
    """Training with batch statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        hidden = torch.tanh(self.norm(self.conv(x)))
        pooled: torch.Tensor = self.head(hidden.mean((2, 3)))
        return pooled


class OddMlp(nn.Module):
    """A width that the stick simulator's chip does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.even, self.odd, self.back = nn.Linear(64, 128), nn.Linear(128, 100), nn.Linear(100, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two of three layers touch the odd width."""
        hidden = self.even(x).relu()
        hidden = self.odd(hidden)
        narrow: torch.Tensor = self.back(hidden)
        return narrow


MODELS: dict[str, Callable[[], Built]] = {
    "mlp": lambda: Built(Mlp().eval(), (torch.randn(4, 32),)),
    "odd-mlp": lambda: Built(OddMlp().eval(), (torch.randn(4, 64),)),
    "gpt2-break": lambda: Built(BrokenGpt2().eval(), (torch.randint(0, 100, (1, 16)),)),
    "convnet-training": lambda: Built(ConvNet().train(), (torch.randn(4, 3, 8, 8),)),
    **SEARCHED,
}


@dataclass(frozen=True)
class Case:
    """One fault in one model, and what must be found.

    Args:
        model: a key of :data:`MODELS`.
        stage: where the fault is, for the table.
        kind: ``accuracy``, ``crash``, ``hang``, ``compile error`` or ``constraint``.
        op: the op at fault, by its bare name at the level of the user's code.
        rung: the first rung that is not good.
        setup: the fault as lines that run in this process and first in the script.
        vendor: the fault as a backend's module.
        backward: gradients are compared.
        flag: a fault of Inductor's own.
        found_as: how culprits call the op where that is another name than in the user's code.
    """

    model: str
    stage: str
    kind: str
    op: str
    rung: str
    setup: str = ""
    vendor: str = ""
    backward: bool = False
    flag: str = ""
    found_as: str = ""

    @property
    def name(self) -> str:
        """As the command line takes it."""
        return f"{self.model}/{self.stage}/{self.kind}/{self.op}".replace(" ", "-")


def _in_a_compiler(model: str, op: str, lowered: str) -> Iterator[Case]:
    """Faults of Inductor in one model: ``op`` is taken apart by it, ``lowered`` is one that it lowers."""
    yield Case(model, "decomposition", "accuracy", op, "aot_decomposed", plants.decomposed(op))
    for where in ("joint_custom_pre_pass", "post_grad_custom_post_pass"):
        stage = f"{where.split('_custom')[0].replace('_', '-')} pass"
        yield Case(model, stage, "accuracy", lowered, "inductor_passes", plants.dropped_by_pass(lowered, where))
    yield Case(model, "lowering", "accuracy", lowered, "inductor", plants.lowering(lowered))


def _of_vendors(model: str, op: str, kinds: tuple[str, ...]) -> Iterator[Case]:
    for kind in kinds:
        named = {"wrong": "accuracy", "refuses": "compile error"}.get(kind, kind)
        yield Case(model, "backend", named, op, DEVICE, vendor=plants.vendor(op, kind))


def _of_gradients(model: str, op: str) -> Iterator[Case]:
    at = f"{op}_backward"
    setup, source = plants.decomposed(at), plants.vendor(at, "wrong", backward=True)
    yield Case(model, "decomposition, backward", "accuracy", op, "aot_decomposed", setup, "", True, "", at)
    yield Case(model, "backend, backward", "accuracy", op, DEVICE, "", source, True, "", at)


_RELU = "inject_relu_bug_TESTING_ONLY"

CASES: tuple[Case, ...] = (
    Case("mlp", "Dynamo", "accuracy", "tanh", "dynamo", plants.dropped_by_dynamo("tanh")),
    *_in_a_compiler("mlp", "silu", "tanh"),
    Case("mlp", "kernel", "accuracy", "erf", "inductor", plants.kernel("erf")),
    *_of_vendors("mlp", "tanh", ("wrong", "crash", "hang", "refuses")),
    *_of_gradients("mlp", "tanh"),
    Case("odd-mlp", "target", "constraint", "linear", ""),
    Case("bert-2l", "Inductor's own flag", "accuracy", "relu", "inductor", flag=_RELU),
    *_in_a_compiler("bert-2l", "gelu", "tanh"),
    *_of_vendors("bert-2l", "tanh", ("wrong", "crash")),
    *_of_gradients("bert-2l", "tanh"),
    Case("bert-12l", "lowering", "accuracy", "tanh", "inductor", plants.lowering("tanh")),
    Case("bert-12l", "decomposition", "accuracy", "gelu", "aot_decomposed", plants.decomposed("gelu")),
    *_of_vendors("bert-12l", "tanh", ("wrong", "hang")),
    Case("resnet-18", "Inductor's own flag", "accuracy", "relu", "inductor", flag=_RELU),
    Case(
        "resnet-18",
        "joint pass",
        "accuracy",
        "relu",
        "inductor_passes",
        plants.dropped_by_pass("relu", "joint_custom_pre_pass"),
    ),
    *_of_vendors("resnet-18", "relu", ("wrong", "crash", "refuses")),
    Case("mamba", "lowering", "accuracy", "rsqrt", "inductor", plants.lowering("rsqrt")),
    Case("mamba", "decomposition", "accuracy", "silu", "aot_decomposed", plants.decomposed("silu")),
    *_of_vendors("mamba", "exp", ("wrong",)),
    Case("gpt2-break", "lowering", "accuracy", "sigmoid", "inductor", plants.lowering("sigmoid")),
    *_of_vendors("gpt2-break", "sigmoid", ("wrong", "crash")),
    *_of_gradients("convnet-training", "tanh"),
    Case("convnet-training", "lowering", "accuracy", "tanh", "inductor", plants.lowering("tanh"), backward=True),
)


def built(case: Case) -> Built:
    """The model with its inputs."""
    torch.manual_seed(0)
    if case.flag and case.model.startswith("bert"):
        config = transformers().BertConfig(
            vocab_size=100,
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            hidden_act="relu",
        )
        tokens = torch.randint(0, 100, (1, 32))
        return Built(transformers().BertModel(config).eval(), (tokens, torch.ones_like(tokens)))
    return MODELS[case.model]()


@dataclass
class Trial:
    """What became of a case."""

    case: Case
    rung: str = ""
    ops_blamed: tuple[str, ...] = ()
    reduced: MinimalRepro | None = None
    cpu_bisect: float = 0.0
    cpu_reduce: float = 0.0
    peak_bytes: int = 0
    runs_bare: bool = False
    problems: list[str] = field(default_factory=list)


@contextmanager
def faulty(case: Case, folder: Path) -> Iterator[str]:
    """The fault is in force; the backend that has it."""
    if case.vendor:
        with plants.installed(folder, case.vendor) as module:
            yield f"{module}:backend"
    elif case.flag:
        with inductor_config.patch({f"cpp.{case.flag}": "accuracy"}):
            yield "inductor"
    else:
        with plants.planted(case.setup):
            yield "inductor"


def try_case(case: Case, python: Path | None) -> Trial:
    """Bisect and reduce; ``python`` is the interpreter that has torch alone, and runs the script."""
    trial = Trial(case)
    forget_peak()
    made = built(case)
    lines = _lines_of(case, made)  # while nothing is wrong: Dynamo may be what is faulty
    torch._dynamo.reset()
    with tempfile.TemporaryDirectory() as name, faulty(case, Path(name)) as backend:
        folder = Path(name)
        target = "stick128" if case.kind == "constraint" else None
        with capture(target, lower="aot", eager=True, keep_inputs=True, artifacts=str(folder / "kept")) as session:
            _run(made, backward=case.backward)
        options: dict[str, Any] = {"backward": case.backward}
        if case.kind == "constraint":
            options = {"error": [each for each in session.findings if "100" in each.title][:1]}
        else:
            _bisect(trial, session, backend, lines)
            options["candidate"] = backend
            if case.kind in {"crash", "hang"}:
                options |= {"isolate": True, "timeout": HANG_SECONDS}
        if case.rung != "dynamo":  # Dynamo's graph has the fault already: there is nothing to hand to a backend
            _reduce(trial, session, options, lines)
            if python is not None and trial.reduced is not None:
                _run_bare(trial, python, folder)
    trial.peak_bytes = peak_bytes()
    return trial


def _run(made: Built, *, backward: bool) -> None:
    with torch.set_grad_enabled(backward):
        outputs = made.module(*made.inputs)
        if backward:
            values = outputs if isinstance(outputs, torch.Tensor) else next(iter(outputs.values()))
            values.float().pow(2).sum().backward()


def _lines_of(case: Case, made: Built) -> set[Place]:
    """The lines on which the user's code has the op."""
    with torch.no_grad():
        graphs = graphs_of(made.module, made.inputs)
    places = [place_of(node) for each in graphs for node in calls_of(each.gm.graph, case.op, None)]
    return {place for place in places if place is not None}


def _bisect(trial: Trial, session: DebugSession, backend: str, lines: set[Place]) -> None:
    case = trial.case
    alone: dict[str, Any] = {"isolate": True, "timeout": COMPILE_SECONDS} if case.kind in {"crash", "hang"} else {}
    device: dict[str, Any] = {"adapter": backend} if case.vendor else {}
    before = cpu_seconds()
    found: BisectRecord = session.bisect(backward=case.backward, **device, **alone)
    trial.cpu_bisect = cpu_seconds() - before
    trial.rung = DEVICE if case.vendor and found.first_bad == backend else found.first_bad
    trial.ops_blamed = tuple(dict.fromkeys(each.op for each in found.culprits))
    if trial.rung != case.rung:
        trial.problems.append(f"the rung is {trial.rung or 'none'}, not {case.rung}")
    if case.kind != "accuracy":
        return
    expected = case.found_as or case.op
    if not found.culprits:
        trial.problems.append("bisect names no op")
    for each in found.culprits:
        if bare_op(each.op) != bare_op(expected):
            trial.problems.append(f"bisect blames {each.op}")
        elif each.source is None or (Path(each.source.file).name, each.source.line) not in lines:
            trial.problems.append(f"bisect names the line {each.source}")


def _reduce(trial: Trial, session: DebugSession, options: dict[str, Any], lines: set[Place]) -> None:
    before = cpu_seconds()
    try:
        found = session.minify(setup=[trial.case.setup] if trial.case.setup else (), **options)
    except Exception as error:
        trial.problems.append(f"minify: {type(error).__name__}: {error}")
        return
    finally:
        trial.cpu_reduce = cpu_seconds() - before
    trial.reduced = found
    left = {
        bare_op(str(getattr(node.target, "__name__", node.target))) for node in found.gm.graph.nodes if _calls(node)
    }
    if found.ops != 1 or left != {bare_op(trial.case.op)}:
        trial.problems.append(f"the repro has {', '.join(sorted(left))}")
    if not any(f"{file}, line {line}" in found.script or f"{file}:{line}" in found.script for file, line in lines):
        trial.problems.append("the script does not name the user's line")


def _calls(node: torch.fx.Node) -> bool:
    return node.op in {"call_function", "call_method", "call_module"}


def _run_bare(trial: Trial, python: Path, folder: Path) -> None:
    assert trial.reduced is not None
    assert trial.reduced.path is not None
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if trial.case.vendor:
        environment["PYTHONPATH"] = str(folder)
    done = subprocess.run(
        [python, trial.reduced.path], capture_output=True, text=True, cwd=folder.anchor, env=environment
    )
    trial.runs_bare = done.returncode == 0
    if not trial.runs_bare:
        trial.problems.append(f"alone its script ends with {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}")


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


@contextmanager
def nothing_left(problems: list[str]) -> Iterator[None]:
    """Note what was started in this block and still runs behind it, also by others on its behalf."""
    mark = f"{_MARK}={os.getpid()}"
    os.environ[_MARK] = str(os.getpid())
    try:
        yield
    finally:
        del os.environ[_MARK]
    problems += [f"left running: {each}" for each in _running(mark.encode())]


_MARK = "INDUCTOR_DEBUG_PROOF_OF_FAULTS"


def _running(mark: bytes) -> Iterator[str]:
    """The commands of the processes that have a variable in their environment; Inductor keeps its compile workers."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            command = (process / "cmdline").read_text().replace("\0", " ").strip()
        except OSError:  # it has ended, or is another user's
            continue
        if mark in environment and command and "compile_worker" not in command:
            yield command


def forget_peak() -> None:
    """Have :func:`peak_bytes` begin again."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """The most memory that this process had since :func:`forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


_NEEDED = [
    "torch",
    "torchgen",
    "functorch",
    "numpy",
    "sympy",
    "mpmath",
    "networkx",
    "jinja2",
    "markupsafe",
    "filelock",
    "fsspec",
    "safetensors",
    "setuptools",
    "_distutils_hack",
    "pkg_resources",
]


def bare_python(folder: Path) -> Path:
    """An environment with torch, what torch needs, and nothing of ours; its interpreter.

    Raises:
        RuntimeError: our package can be imported in it.
    """
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    (there,) = folder.glob("lib/python*/site-packages")
    packages = Path(torch.__file__).parents[1]
    for name in [*_NEEDED, "typing_extensions.py", "numpy.libs"]:
        if (packages / name).exists():
            (there / name).symlink_to(packages / name)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = "import importlib.util as u, torch; print(u.find_spec('inductor_debug_jupyter'))"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, cwd=folder, env=environment)
    if done.stdout.strip() != "None":
        raise RuntimeError(f"no bare environment after {time.monotonic() - started:.0f} s: {done.stdout}{done.stderr}")
    return python
