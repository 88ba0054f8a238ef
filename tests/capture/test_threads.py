"""Threads: what a capture hands to others is captured, and strict mode does not pass what nobody looked at."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import resolve

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

Work = Callable[[], Any]


class Refused(nn.Module):
    """784 is no multiple of what stick128 takes."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(784, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(x)


def in_a_thread(work: Work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_a_thread_of_a_thread(work: Work) -> None:
    in_a_thread(lambda: in_a_thread(work))


def in_a_pool(work: Work) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def in_a_pools_map(work: Work) -> None:
    with ThreadPoolExecutor(1) as pool:  # two at once would have torch compile twice, with or without a capture
        list(pool.map(lambda _: work(), range(2)))


def in_a_thread_pool(work: Work) -> None:
    with ThreadPool(1) as pool:
        pool.apply(work)


def to_thread(work: Work) -> None:
    asyncio.run(asyncio.to_thread(work))


def timer(work: Work) -> None:
    waiting = threading.Timer(0.01, work)
    waiting.start()
    waiting.join()


WAYS = [in_a_thread, in_a_thread_of_a_thread, in_a_pool, in_a_pools_map, in_a_thread_pool, to_thread, timer]


@pytest.mark.parametrize("compiled", ["plain", "compiled", "compiled before"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_model_that_runs_in_a_thread_is_checked(way: Callable[[Work], None], compiled: str) -> None:
    model, x = Refused(), torch.ones(2, 784)
    expected = model(x)
    called = model if compiled == "plain" else torch.compile(model, backend="aot_eager")
    if compiled == "compiled before":
        called(x)
    seen = []
    with (
        pytest.raises(ConstraintViolationError, match="784 is not a multiple of 64"),
        capture(target="stick128", strict=True, eager=True, lower="dynamo") as session,
    ):
        way(lambda: seen.append(called(x)))
    assert all(torch.equal(each, expected) for each in seen)
    assert len(session.captures) == 1
    assert session.notes == ()
    assert (threading.Thread.start.__module__, ThreadPoolExecutor.submit.__module__) == (
        "threading",
        "concurrent.futures.thread",
    )


@pytest.fixture
def older() -> Iterator[Callable[[Work], None]]:
    """A thread that was there before, which takes its work from a queue of its own."""
    todo: list[Work] = []
    may_go, is_done = threading.Semaphore(0), threading.Semaphore(0)

    def run() -> None:
        while may_go.acquire() and todo:
            todo.pop()()
            is_done.release()

    thread = threading.Thread(target=run, name="older")
    thread.start()

    def give(work: Work) -> None:
        todo.append(work)
        may_go.release()
        is_done.acquire()

    yield give
    may_go.release()
    thread.join()


def test_a_pool_of_an_earlier_cell(older: Callable[[Work], None]) -> None:
    model, x = Refused(), torch.ones(2, 784)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        for _ in range(2):
            with capture(eager=True, lower="dynamo") as session:
                pool.submit(model, x).result()
            assert (len(session.captures), session.notes) == (1, ())
        with capture(eager=True, lower="dynamo") as session:
            pass
        pool.submit(model, x).result()
    assert session.captures == ()


def test_a_compile_on_a_thread_that_was_there_before_is_left_alone_and_said(older: Callable[[Work], None]) -> None:
    compiled, x, seen = torch.compile(Refused(), backend="eager"), torch.ones(2, 784), []
    with (
        pytest.raises(ConstraintViolationError, match="could not be checked: threads: what was compiled on 'older'"),
        capture(target="stick128", strict=True) as session,
    ):
        older(lambda: seen.append(compiled(x).shape))
    assert seen == [(2, 8)]
    assert session.captures == ()


def test_a_thread_with_a_capture_of_its_own_is_nobody_elses_gap(older: Callable[[Work], None]) -> None:
    sessions = []

    def work() -> None:
        with capture(lower="dynamo", eager=True) as inner:
            Refused()(torch.ones(2, 784))
        sessions.append(inner)

    with capture(target="stick128") as outer:
        older(work)
    assert len(sessions[0].captures) == 1
    assert outer.notes == ()


def test_a_thread_that_is_not_done_is_said_and_goes_on_undisturbed() -> None:
    model, x, go_on, inside = Refused(), torch.ones(2, 784), threading.Event(), threading.Event()
    answers = []

    class Waits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.model(x)
            self.wait()
            return x + 1

        @torch.compiler.disable
        def wait(self) -> None:
            inside.set()
            go_on.wait(60)

    waits = Waits()
    session = DebugSession(resolve({"target": "stick128", "strict": True, "lower": "dynamo"}), eager=True)
    session.open()
    thread = threading.Thread(target=lambda: answers.append(waits(x)), name="slow")
    thread.start()
    inside.wait(60)
    session.close()
    error = session.refusal()
    go_on.set()
    thread.join()
    assert "could not be checked: threads: 'slow' was still running when the capture ended" in str(error)
    assert torch.equal(answers[0], model(x) + 1)
    with capture(eager=True, lower="dynamo") as later:
        waits(x)
    assert later.captures, "what was compiled for the thread is taken out now"
    assert not [name for name in globals() if name.startswith("__compiled_fn")]


def test_threads_of_libraries_may_go_on() -> None:
    pool = None
    with capture(target="stick128", strict=True, eager=True, lower="dynamo") as session:
        pool = ThreadPool(1)  # its threads wait for more
        pool.apply(nn.Linear(64, 64), (torch.ones(64, 64),))
    pool.terminate()
    assert (len(session.captures), session.notes) == (1, ())


def test_several_threads_at_once_each_have_their_own_call() -> None:
    models = [nn.Sequential(nn.Linear(size, size), nn.ReLU()) for size in range(2, 8)]
    barrier = threading.Barrier(len(models))

    def work(model: nn.Module) -> None:
        barrier.wait(60)
        model(torch.ones(1, model[0].in_features))

    with capture(eager=True, lower="dynamo", keep_inputs=True) as session:
        threads = [threading.Thread(target=work, args=(model,)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(each.graph("dynamo").calls[-1].shape for each in session.captures) == [(1, n) for n in range(2, 8)]
    assert session.notes == ()
    assert all(each.call == 1 for each in session.captures)
    assert len(session._calls.needed()) == len(models)


def test_threads_may_call_one_module_of_torchs_at_once() -> None:
    """The frame that such a module is compiled from holds it only while a call runs, on whichever thread."""
    before = sys.getswitchinterval()
    model, values = nn.Linear(4, 4), torch.ones(2, 4)
    expected, wrong = model(values), []

    def work() -> None:
        try:
            wrong.extend(out for out in (model(values) for _ in range(200)) if not torch.equal(out, expected))
        except Exception as error:
            wrong.append(error)

    sys.setswitchinterval(1e-5)
    try:
        with capture(eager=True, lower="dynamo"):
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == []
