"""Ctrl-C at random moments of a capture, a comparison, a search, a fix and an isolated run, in one real kernel.

``python tests/jupyter/interrupts.py --all`` strikes 60 times (``--times N`` for another number, ``--seed`` for other
moments) and prints a table; ``test_interrupts.py`` strikes at moments of its own choice and at a few random ones. Each
time a cell is queued behind the one that is struck, as Run All does, and then:

- the reply's status is "error" with KeyboardInterrupt, and the queued cell did not run;
- nothing in the process differs from before: see :data:`STATE`;
- the next cell, under the magic, gives the right numbers and the findings that it always has.

A strike that comes when the cell has already replied is no strike: it is made again, sooner. So is one that hits
ipykernel's own code around the cell, which then never replies ("KeyboardInterrupt caught in kernel").
"""

from __future__ import annotations

import argparse
import os
import queue
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":  # this tree, here and in the kernel
    sys.path.insert(0, str(Path(__file__).parents[2]))
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    from tests.jupyter.conftest import Kernel
else:
    from .conftest import Kernel

CHIP = """
import torch

def wrong(gm, inputs):
    from torch._dynamo.backends.common import aot_autograd
    def compiler(graph, example):
        def run(*args):
            return [each + 0.5 if torch.is_tensor(each) and each.is_floating_point() else each for each in graph(*args)]
        from functorch.compile import make_boxed_func
        return make_boxed_func(run)
    return aot_autograd(fw_compiler=compiler)(gm, inputs)
"""
SETUP = """%load_ext inductor_debug_jupyter
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(100, 64)
    def forward(self, x):
        return torch.relu(self.up(x)) + 1
torch.manual_seed(0)
net, x, ran = Net().eval(), torch.randn(8, 100), []
nets = [Net().eval() for _ in range(6)]  # so that a cell takes a second or more
with torch.no_grad():
    expected = net(x)
"""
STATE = '''
def state():
    """Everything that may be changed for a while, as one thing to compare."""
    import concurrent.futures, contextlib, gc, logging, os, pathlib, signal, sys, threading
    import torch._dynamo.config, torch._functorch.config, torch._inductor.config
    from torch._C._dynamo.eval_frame import get_eval_frame_callback, get_eval_frame_isolate_recompiles_id
    from torch._dynamo import convert_frame, eval_frame
    from torch._guards import CompileContext, TracingContext, active_fake_mode
    from torch._logging import _internal
    from inductor_debug_jupyter.pipeline.adapters import device_log
    from inductor_debug_jupyter.pipeline.capture import threads
    from inductor_debug_jupyter.pipeline.torch_compat import module_calls, hooks, patches, regions
    shell = get_ipython()
    loggers = [logging.getLogger(name) for name in sorted(logging.root.manager.loggerDict) if name.startswith("torch")]
    lock = []
    trying = threading.Thread(target=lambda: lock.append(convert_frame.compile_lock.acquire(timeout=5)
                                                         and (convert_frame.compile_lock.release() or "free")))
    trying.start()
    trying.join()
    for thread in threading.enumerate():  # a line of progress ends within half a second
        if thread.name.startswith("inductor-debug"):
            thread.join(10)
    children = []
    for about in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            if about.read_text().rpartition(")")[2].split()[1] == str(os.getpid()):
                children.append((about.parent / "cmdline").read_text())
    return {
        "ours": (patches.installed(), len(hooks._listeners), len(device_log._listeners), len(regions._redirects),
                 len(regions._retired), len(module_calls._watches), len(threads._open)),
        "dynamo": torch._dynamo.config.get_config_copy(),
        "inductor": torch._inductor.config.get_config_copy(),
        "functorch": torch._functorch.config.get_config_copy(),
        "eval frame": (get_eval_frame_callback(), get_eval_frame_isolate_recompiles_id(), eval_frame._stance.stance),
        "compiling": (CompileContext.current_compile_id(), TracingContext.try_get(), active_fake_mode(), lock),
        "calls": [(each, id(each)) for each in (torch.nn.Module.__call__, threading.Thread.start,
                                                concurrent.futures.ThreadPoolExecutor.submit)],
        "grad": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"),
                 torch.get_default_dtype(), torch.get_num_threads()),
        "modes": (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        "streams": (id(sys.stdout), id(sys.stderr), id(sys.displayhook)),
        "signals": (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGTERM),
                    signal.getitimer(signal.ITIMER_REAL)),
        "logging": [(each.name, each.level, len(each.handlers), [len(h.filters) for h in each.handlers])
                    for each in loggers if each.level or each.handlers],  # an import makes a logger, and is no change
        "trace": (_internal.trace_log.level, len(_internal.trace_log.handlers)),
        "collector": gc.isenabled(),
        "shell": (shell.custom_exceptions, len(shell.ast_transformers), len(shell.input_transformers_cleanup)),
        "process": (sys.getrecursionlimit(), dict(os.environ), os.getcwd()),
        "threads": sorted(each.name + type(each).__name__ for each in threading.enumerate()),
        "children": children,
        "model": (net.training, [len(each._forward_hooks) + len(each._forward_pre_hooks) for each in net.modules()],
                  [name for name in globals() if name.startswith(("__compiled_fn", "__resume"))],
                  sum(float(each.sum()) for each in net.parameters())),
    }

def changed():
    now = state()
    return {name: (before[name], now[name]) for name in now if before[name] != now[name]}
'''
CHECK = """%%inductor_debug --target stick128 --lower aot --no-panel --as checked
with torch.no_grad():
    answer = net(x)
"""
ANSWER = "(torch.equal(answer, expected), len(checked.captures), len(checked.findings), len(ran))"
BEGAN = "open('began', 'w').close()"
KINDS = {
    "capture": f"%%inductor_debug --target stick128 --strict\n{BEGAN}\nfor _ in range(6):\n    Net().eval()(x)\nnet(x)",
    "diff": (
        "%%inductor_debug --target stick128 --diff --candidate aot_eager --backward --lower dynamo\n"
        f"{BEGAN}\nfor each in nets:\n    each(x)"
    ),
    "localize": (
        f"%%inductor_debug --diff --candidate chip:wrong --localize --lower dynamo\n{BEGAN}\n"
        "for each in nets:\n    each(x)"
    ),
    "fix_all": (
        f"{BEGAN}\nfor _ in range(20):\n"
        "    checked._fixing._trials.clear()  # it remembers what it tried\n    checked.fix_all()"
    ),
    "isolate": f"%%inductor_debug --diff --candidate chip:wrong --isolate --lower dynamo\n{BEGAN}\nnet(x)",
}
QUEUED = "ran.append(1)"


@dataclass(frozen=True)
class Strike:
    """One of them: where, after how many seconds of how many, and what was wrong afterwards."""

    kind: str
    after: float
    of: float
    wrong: tuple[str, ...]
    seconds_to_stop: float


class Target:
    """A kernel that is struck again and again."""

    def __init__(self, folder: str, kinds: Iterable[str] = KINDS) -> None:
        self.folder = folder
        Path(folder, "chip.py").write_text(CHIP)
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a pool of torch's own would stay, with or without us
        self.kernel = Kernel(folder)
        self._first(SETUP)
        self._first(STATE)
        self._first(CHECK)
        self.answer = self.kernel.value(ANSWER)
        self.queued = ""
        self.seconds: dict[str, float] = {}
        for kind in kinds:
            cell = KINDS[kind]
            for _ in range(2):  # the first time loads modules
                self._first(CHECK)  # a session remembers what it tried
                began = time.monotonic()
                status, error, _ = self._run_all(cell, None)
                self.seconds[kind] = time.monotonic() - began
                if __name__ == "__main__":
                    print(f"{kind}: {self.seconds[kind]:.2f} s", flush=True)
                assert error == ("ConstraintViolationError" if "--strict" in cell else ""), (kind, status, error)
        self._first("print('·' * 1_000_000)")  # pyzmq starts a thread for the first large message
        self._first("ran.clear()\nbefore = state()")

    def strike(self, kind: str, part: float) -> Strike:
        """Strike a cell of that kind after ``part`` of the time that it usually takes."""
        after = part * self.seconds[kind]
        while True:
            try:
                status, error, stopped = self._run_all(KINDS[kind], after)
            except queue.Empty:
                status, error, stopped = "", "no reply", 0.0
            if error == "KeyboardInterrupt" or (stopped > 0 and error != "no reply") or after < 0.01:
                break
            self._first(CHECK)  # a session remembers what it tried: the same fix_all would end at once
            self._first("ran.clear()")
            after *= 0.7
        wrong = []
        if (status, error) != ("error", "KeyboardInterrupt"):
            wrong.append(f"the reply was {status!r} {error}")
        changed = self.kernel.value("changed()")
        if changed != "{}":
            wrong.append(f"left changed: {changed}")
        self._first(CHECK)
        if (answer := self.kernel.value(ANSWER)) != self.answer:
            wrong.append(f"the next cell: {answer}, not {self.answer}")
        self._first("ran.clear()")
        return Strike(kind, after, self.seconds[kind], tuple(wrong), stopped)

    def run_all(self, cell: str, when: Path | None = None) -> tuple[str, str, str]:
        """Strike when the cell has made that file; the statuses of the cell and of the one behind it, and the error."""
        if when is not None:
            when.unlink(missing_ok=True)
        status, error, _ = self._run_all(cell, when)
        if when is not None:
            when.unlink(missing_ok=True)
        return status, error, self.queued

    def close(self) -> None:
        """End the kernel."""
        self.kernel.close()

    def _first(self, code: str) -> None:
        outcome = self.kernel.run(code)
        assert not outcome.error, (outcome.error, outcome.traceback)

    def _wait_until_it_runs(self, message_id: str) -> None:
        while True:
            message = self.kernel.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == message_id and message["msg_type"] == "execute_input":
                return

    def _run_all(self, cell: str, after: float | Path | None) -> tuple[str, str, float]:
        """Run a cell with another one queued, and strike after some seconds, or when there is a file.

        Answers with the first one's status, its error, and how long it took to stop: less than 0 when it had replied
        before the strike.
        """
        client = self.kernel.client
        began_file = Path(self.folder, "began")
        began_file.unlink(missing_ok=True)
        client.execute("0", reply=True, timeout=60)
        first = client.execute(cell, stop_on_error=True)
        second = client.execute(QUEUED, stop_on_error=True)
        began = time.time()
        if after is not None:
            self._wait_until_it_runs(first)
            if isinstance(after, Path):
                while not after.exists():
                    time.sleep(0.05)
            else:
                while not began_file.exists():  # before that IPython reads the cell: see above
                    time.sleep(0.01)
                time.sleep(after)
            self.kernel.manager.interrupt_kernel()
        struck = time.time()
        replies = {}
        while len(replies) < 2:
            reply = client.get_shell_msg(timeout=280)
            if (parent := reply["parent_header"].get("msg_id")) in (first, second):
                replies[parent] = reply["content"]
                if parent == first:
                    stopped = reply["header"]["date"].timestamp() - (struck if after is not None else began)
        content, self.queued = replies[first], replies[second]["status"]
        return content["status"], content.get("ename", ""), stopped


def strikes(target: Target, times: int, seed: int) -> list[Strike]:
    """Strike so many times, each kind in its turn."""
    draw = random.Random(seed)
    kinds = list(KINDS)
    done = []
    for number in range(times):
        strike = target.strike(kinds[number % len(kinds)], draw.random())
        done.append(strike)
        if __name__ == "__main__":
            told = "; ".join(strike.wrong) or "as it should be"
            print(
                f"{number + 1:3} {strike.kind:9} {strike.after:6.2f} s of {strike.of:5.2f} s, "
                f"stopped in {strike.seconds_to_stop:5.2f} s: {told}",
                flush=True,
            )
    return done


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="60 times")
    parser.add_argument("--times", type=int, default=6)
    parser.add_argument("--seed", type=int, default=17)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = Target(folder)
        try:
            done = strikes(target, 60 if arguments.all else arguments.times, arguments.seed)
        finally:
            target.close()
    counts = Counter((each.kind, not each.wrong) for each in done)
    for kind in KINDS:
        right, wrong = counts[kind, True], counts[kind, False]
        print(f"{kind:9} {right + wrong:3} strikes, {right:3} as they should be, {wrong} not")
    return int(any(each.wrong for each in done))


if __name__ == "__main__":
    raise SystemExit(main())
