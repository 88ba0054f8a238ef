"""Long work while the kernel is idle: it ends as soon as the kernel is wanted."""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

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


def test_a_loop_with_a_task_of_the_users_is_not_idle():
    """Its tasks once stood still for seconds."""
    done = []

    async def run(leave: Callable[[], Coroutine[Any, Any, None]] | None) -> bool:
        left = asyncio.ensure_future(leave()) if leave is not None else None
        await asyncio.sleep(0)
        began = run_while_idle(asyncio.get_running_loop(), lambda: done.append(1))
        if left is not None:
            left.cancel()
        return began

    async def ticks() -> None:
        while True:
            await asyncio.sleep(0.01)

    async def calls_later() -> bool:
        handle = asyncio.get_running_loop().call_later(60, lambda: None)
        began = run_while_idle(asyncio.get_running_loop(), lambda: done.append(1))
        handle.cancel()
        return began

    assert asyncio.run(run(ticks)) is False
    assert asyncio.run(calls_later()) is False
    assert done == []
    assert asyncio.run(run(None)) is True


def test_nor_is_a_kernel_in_which_a_thread_of_the_users_runs():
    """Its random numbers were once turned back, and its default dtype changed."""
    done, stop = [], threading.Event()

    def serves() -> None:
        while not stop.wait(0.001):
            pass

    thread = threading.Thread(target=serves)
    thread.start()
    try:
        assert in_loop(lambda: done.append(1)) is False
    finally:
        stop.set()
        thread.join()
    assert done == []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        assert in_loop(lambda: done.append(1)) is True, "a pool's thread that waits for work does nothing"


def test_work_is_stopped_when_a_thread_of_the_users_begins():
    stop = threading.Event()

    def serves() -> None:
        stop.wait(30)

    def endless() -> None:
        threading.Timer(0.05, serves).start()
        while True:
            time.sleep(0.001)

    try:
        assert in_loop(endless) is False
    finally:
        stop.set()


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
