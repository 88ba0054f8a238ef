"""The end of a process as a failure to reduce: a backend that crashes, hangs or leaves.

Each graph is compiled and run in the process of an :class:`IsolatedAdapter`, which stays warm while graphs pass; a new
interpreter starts only after one ended. The script runs itself a second time and says how that run ended.
"""

from __future__ import annotations

import inspect
import signal
import subprocess
import threading
from collections.abc import Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.adapters.isolated import IsolatedAdapter
from inductor_debug_jupyter.pipeline.errors import ReproError
from inductor_debug_jupyter.pipeline.isolation import DEFAULT_SECONDS
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend, backend_name
from inductor_debug_jupyter.pipeline.minify.predicates import (
    FailurePredicate,
    Outcome,
    ScriptNeeds,
    compiled_call,
    innermost,
    nodes_like,
    run_source,
)
from inductor_debug_jupyter.pipeline.records import CrashRecord
from inductor_debug_jupyter.pipeline.repro import FailureCheck, graph_script
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.torch_compat.regions import undisturbed

_HANGS = "does not come back"


class ProcessEnds(FailurePredicate):
    """Compiling or running a graph ends the backend's process in the same way: by the same signal, or not at all.

    Args:
        crash: how it ended.
        adapter: the backend in its process, which :meth:`close` ends.
        backend: the same backend as a script is to name it.
        backward: also run the backward.
        open_sizes: compile with symbolic sizes.
        timeout: seconds after which a step counts as one that does not come back, as for the adapter.
    """

    confirmations = 1

    def __init__(
        self,
        crash: CrashRecord,
        adapter: IsolatedAdapter,
        backend: Backend | AcceleratorAdapter,
        *,
        backward: bool = False,
        open_sizes: bool = False,
        timeout: float | None = None,
    ) -> None:
        self.crash = crash
        self.needs_gradients, self.open_sizes = backward, open_sizes
        self._adapter, self._backend = adapter, backend
        hangs = crash.kind == "timeout" and timeout is not None
        self._limit = timeout if hangs else DEFAULT_SECONDS
        self._run = compiled_call(adapter, open_sizes=open_sizes, backward=backward)

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Compile and run the graph in the other process."""
        try:
            with unnoticed(), undisturbed():
                self._run(gm, inputs)
        except Exception as error:
            crash = getattr(innermost(error), "crash", None)
            if not isinstance(crash, CrashRecord):
                return Outcome(False, f"it raises {type(innermost(error)).__name__}, and its process lives")
            return Outcome(_ending(crash) == _ending(self.crash), crash.sentence)
        return Outcome(False, "its process lives")

    def likely(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[str]:
        """The op that was running when the process ended, where the backend runs op by op."""
        op, _, node = self.crash.op.partition(" (node ")
        return nodes_like(gm, op, node.rstrip(")")) if op else []

    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """A script that runs the graph in a second process and looks how that ends."""
        if self.crash.kind in ("out_of_memory", "protocol"):
            raise ReproError(f"{self.crash.sentence}: a script cannot show that anywhere else")
        run, found = run_source(None, self._backend, open_sizes=self.open_sizes, backward=self.needs_gradients)
        expected, name = _ending(self.crash), backend_name(self._backend)
        source = f"EXPECTED = {expected!r}\nLIMIT = {self._limit!r}  # seconds\n\n\n{run}\n\n"
        source += f"{inspect.getsource(ending_of_run)}\n{_ENDS}"
        imports = ("import signal", "import subprocess", "import threading")
        title = f"{name} ends the process: {expected}" if expected != _HANGS else f"{name} {_HANGS}"
        check = FailureCheck(source, title, imports, found.needs, found.text)
        return graph_script(gm, inputs, check, size=needs.size, exact=needs.exact, setup=needs.setup)

    def close(self) -> None:
        """End the backend's process."""
        self._adapter.close()


def _ending(crash: CrashRecord) -> str:
    """How a process ended, in the words of :func:`ending_of_run`."""
    if crash.kind == "timeout":
        return _HANGS
    if crash.kind == "killed":
        return "SIGKILL"
    return crash.signal or (f"exit code {crash.exit_code}" if crash.kind == "exit" else crash.kind)


def ending_of_run(command: list[str], limit: float) -> str:
    """Run a command that prints a line when it starts to compute; how it ended, and at most ``limit`` seconds later."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE)  # noqa: S603
    late = []

    def give_up() -> None:
        late.append(True)
        child.kill()

    assert child.stdout is not None
    child.stdout.readline()
    timer = threading.Timer(limit, give_up)
    timer.start()
    code = child.wait()
    timer.cancel()
    if late:
        return "does not come back"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


_ENDS = """
def failure(graph, inputs):
    if "--run" in sys.argv:
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))  # what it imports takes time, too
        print("running", flush=True)
        run(graph, inputs)
        return None
    ending = ending_of_run([sys.executable, __file__, "--run"], LIMIT)
    if ending == EXPECTED:
        return "the process " + ending if ending == "does not come back" else "the process ended: " + ending
    print("it ended instead: " + ending)
    return None
"""
