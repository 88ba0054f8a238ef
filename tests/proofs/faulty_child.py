"""A model on a simulator that crashes or hangs, in a process of its own; what is known of its end is its result.

The child logs each kernel before it runs (``INDUCTOR_DEBUG_TRANSFERS=1``), so its last line names the kernel that it
did not come back from. A child that says nothing more for a while after that is hanging, and is ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.adapters.stick import Fault

PATIENCE = 600.0
"""Seconds after which a child is ended, whatever it does."""

_CODE = """
import sys, warnings
warnings.simplefilter("ignore")
from inductor_debug_jupyter.benchmarks.models import benchmark_model
from inductor_debug_jupyter.pipeline.adapters.stick import stick128
import torch
built = benchmark_model(sys.argv[1]).build(sys.argv[2] == "small")
with torch.no_grad():
    torch.compile(built.module, backend=stick128)(*built.inputs)
"""


@dataclass
class Ending:
    """How a child ended.

    Args:
        launched: every op that was launched, in order.
        signal: the name of the signal that it died of; empty when it did not.
        hung: whether it had to be ended.
        code: its exit code, when it ended by itself.
    """

    launched: list[str] = field(default_factory=list)
    signal: str = ""
    hung: bool = False
    code: int | None = None

    def problems(self, fault: Fault) -> list[str]:
        """What is not as the fault says: the kernel that it is on is the first of its kind, and the last that ran."""
        expected = fault.argument or "SIGSEGV"
        found = []
        if fault.name == "crash" and self.signal != expected:
            found.append(f"it ended with {self.signal or self.code}, not with {expected}")
        if fault.name == "hang" and not self.hung:
            found.append(f"it did not hang: it ended with {self.signal or self.code}")
        on = [index for index, op in enumerate(self.launched) if fault.is_on(op)]
        if on != [len(self.launched) - 1]:
            found.append(f"the last kernel was {self.launched[-1] if self.launched else 'none'}")
        return found


def run_child(model: str, fault: Fault, *, small: bool, quiet_seconds: float = 3.0) -> Ending:
    """Run a model's forward with a fault that ends or stops the process."""
    environment = {**os.environ, "INDUCTOR_DEBUG_TRANSFERS": "1", "INDUCTOR_DEBUG_FAULTS": str(fault)}
    command = [sys.executable, "-c", _CODE, model, "small" if small else "full"]
    ending = Ending()
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as child:
        reached = threading.Event()
        reader = threading.Thread(target=_read, args=(child, fault, ending, reached), daemon=True)
        reader.start()
        reached.wait(PATIENCE)
        try:
            child.wait(quiet_seconds)
        except subprocess.TimeoutExpired:
            ending.hung = True
            child.kill()
        reader.join(quiet_seconds)
        code = child.wait()
    if not ending.hung:
        ending.code = code
        ending.signal = signal.Signals(-code).name if code < 0 else ""
    return ending


def _read(child: subprocess.Popen[str], fault: Fault, ending: Ending, reached: threading.Event) -> None:
    """Collect the launches; ``reached`` when the fault's kernel is launched, or when the child has no more to say."""
    assert child.stderr is not None
    for line in child.stderr:
        _, found, rest = line.partition("launch: op=")
        if found:
            ending.launched.append(rest.split()[0])
            if fault.is_on(ending.launched[-1]):
                reached.set()
    reached.set()
