"""A real IPython kernel in a process of its own."""

from __future__ import annotations

import queue
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

BLOCK = """
import torch
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(784, 512)
    def forward(self, x):
        return self.up(x)
"""
"""A module that stick128 refuses."""


@dataclass
class Outcome:
    """What a cell put under itself."""

    stdout: str = ""
    stderr: str = ""
    results: list[str] = field(default_factory=list)
    displays: list[dict[str, Any]] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    traceback: list[str] = field(default_factory=list)

    def visible(self) -> tuple[Any, ...]:
        """Everything a user compares: output, result, error, and the traceback with cell numbers taken out."""
        return (self.stdout, self.stderr, self.results, self.error, [_plain(line) for line in self.traceback])


def _plain(text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"In\s*\[\d+\]", "In[n]", text)
    return "\n".join(line for line in text.splitlines() if "%%inductor_debug" not in line)


class Kernel:
    """One kernel, driven cell by cell."""

    def __init__(self, folder: str) -> None:
        self.manager = KernelManager()
        self.manager._kernel_spec = KernelSpec(
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="test",
            language="python",
        )
        self.manager.start_kernel(cwd=folder)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, *, cell_id: str = "") -> Outcome:
        """Run a cell to its end; ``cell_id`` is what a front end calls the cell."""
        outcome = Outcome()
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        request = self.client.session.msg("execute_request", content, metadata={"cellId": cell_id} if cell_id else {})
        self.client.shell_channel.send(request)
        message_id = request["header"]["msg_id"]
        while True:
            message = self.client.get_iopub_msg(timeout=180)
            if message["parent_header"].get("msg_id") != message_id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                setattr(outcome, content["name"], getattr(outcome, content["name"]) + content["text"])
            elif kind == "execute_result":
                outcome.results.append(content["data"]["text/plain"])
            elif kind == "display_data":
                outcome.displays.append(content["data"])
            elif kind == "update_display_data":
                outcome.updates.append(content["data"])
            elif kind == "error":
                outcome.error = f"{content['ename']}: {content['evalue']}"
                outcome.traceback = content["traceback"]
            elif kind == "status" and content["execution_state"] == "idle":
                return outcome

    def value(self, expression: str) -> str:
        """``repr`` of an expression in the kernel."""
        outcome = self.run(expression)
        assert not outcome.error, "\n".join(map(_plain, outcome.traceback))
        return outcome.results[0] if outcome.results else ""

    def reply_status(self, code: str) -> str:
        """The status of the execute reply, by which a front end decides whether Run All goes on."""
        message_id = self.client.execute(code)
        while True:
            reply = self.client.get_shell_msg(timeout=180)
            if reply["parent_header"].get("msg_id") == message_id:
                status: str = reply["content"]["status"]
                break
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=30)
            except queue.Empty:
                break
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        return status

    def close(self) -> None:
        """Shut the kernel down."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture(scope="session")
def shared_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for many tests: starting torch takes longer than most of them."""
    running = Kernel(str(tmp_path_factory.mktemp("kernel")))
    running.run("import torch\n%load_ext inductor_debug_jupyter")
    yield running
    running.close()


@pytest.fixture
def new_kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel in which nothing has run yet."""
    running = Kernel(str(tmp_path))
    yield running
    running.close()


@pytest.fixture
def kernel(shared_kernel: Kernel) -> Iterator[Kernel]:
    """The shared kernel; after the test nothing of ours is left patched in it."""
    yield shared_kernel
    probe = "__import__('inductor_debug_jupyter.pipeline.torch_compat.patches', fromlist=['x']).installed()"
    assert shared_kernel.value(probe) == "()"
    assert shared_kernel.value("torch.nn.Module.__call__.__name__") == "'_wrapped_call_impl'"
    assert shared_kernel.value("get_ipython().custom_exceptions") == "()"
