"""Long work while the kernel is idle: it ends as soon as the kernel is wanted."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
import time

from inductor_debug_jupyter.jupyter.idle import run_while_idle

CELL = """%%inductor_debug --target stick128 --as s
model(x).sum().backward()"""


def in_loop(action, *, arrives: float | None = None):
    """``run_while_idle`` in a loop that reads from a socket, on which something arrives after some seconds."""
    ours, theirs = socket.socketpair()

    async def run() -> bool:
        loop = asyncio.get_running_loop()
        loop.add_reader(ours.fileno(), lambda: None)
        await asyncio.sleep(0)
        try:
            if arrives is not None:
                threading.Timer(arrives, theirs.send, (b"!",)).start()
            return run_while_idle(loop, action)
        finally:
            loop.remove_reader(ours.fileno())

    with ours, theirs:
        return asyncio.run(run())


def test_work_that_nobody_disturbs_comes_to_its_end():
    done = []
    before = signal.getsignal(signal.SIGINT)
    assert in_loop(lambda: done.append(1)) is True
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is before


def test_work_is_stopped_when_something_arrives():
    def endless() -> None:
        while True:
            time.sleep(0.001)

    assert in_loop(endless, arrives=0.05) is False
    time.sleep(0.05)  # an interrupt that came too late would strike here


def test_work_that_was_stopped_can_be_begun_again():
    rounds = []

    def work() -> None:
        rounds.append(1)
        while len(rounds) == 1:
            time.sleep(0.001)

    assert in_loop(work, arrives=0.05) is False
    assert in_loop(work) is True


def test_without_a_loop_that_can_be_watched_nothing_is_begun():
    done = []
    assert run_while_idle(object(), lambda: done.append(1)) is False  # type: ignore[arg-type]
    assert done == []


def pending(kernel) -> str:
    return kernel.value("[each.rest is not None for each in s.record.captures]")


def test_the_next_cell_goes_first_and_an_idle_kernel_completes(kernel):
    kernel.run("model, x = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()), torch.randn(4, 64)")
    outcome = kernel.run(CELL)
    assert not outcome.error
    assert pending(kernel) == "[True]", "its panel did not wait for Inductor"
    for _ in range(60):
        time.sleep(3)
        if pending(kernel) == "[False]":
            break
    else:
        raise AssertionError("an idle kernel did not complete the session")
    assert kernel.value("'code' in s.record.captures[0].stages") == "True"
    assert not kernel.run("model(x)").error
