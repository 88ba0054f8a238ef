"""Foreign code in a process of its own: it may die in any way, and only it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from inductor_debug_jupyter.pipeline.errors import CannotSendError, OptionError
from inductor_debug_jupyter.pipeline.isolation import Answer, Limits, Worker
from inductor_debug_jupyter.pipeline.options import LEAST_PROCESS_MEMORY
from inductor_debug_jupyter.pipeline.records import CrashRecord

HANDLER = """
import ctypes, mmap, os, signal, subprocess, sys, time
import torch
from inductor_debug_jupyter.pipeline.isolation import running

class Foreign:
    def echo(self, *values):
        return list(values)

    def pid(self):
        return os.getpid()

    def raises(self):
        with running("aten.mm"):
            raise ValueError("no such kernel")

    def segfault(self):
        print("about to read address 0")
        with running("aten.relu.default (node relu)"):
            ctypes.string_at(0)

    def illegal(self):
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\\x0f\\x0b" if os.uname().machine == "x86_64" else b"\\x00\\x00\\x00\\x00")
        ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()

    def abort(self):
        os.abort()

    def leave(self):
        sys.exit(3)

    def killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def hang_in_c(self):
        ctypes.PyDLL(None).pause()  # holds the interpreter's lock

    def hang_with_child(self, file):
        child = subprocess.Popen(["sleep", "1000"])
        with open(file, "w") as out:
            out.write(str(child.pid))
        time.sleep(1000)

    def _daemons(self, folder):
        # A child in a session of its own; a daemon that is nobody's child any more, with an empty environment.
        daemon = (
            "import os, sys, time\\n"
            "if os.fork(): os._exit(0)\\n"
            "os.setsid()\\n"
            "if os.fork(): os._exit(0)\\n"
            "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)"
        )
        own = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        subprocess.run([sys.executable, "-c", daemon, f"{folder}/daemon"], env={}, check=True)
        while not (os.path.exists(f"{folder}/daemon") and open(f"{folder}/daemon").read()):
            time.sleep(0.01)
        with open(f"{folder}/own", "w") as out:
            out.write(str(own.pid))

    def daemons_and_answer(self, folder):
        self._daemons(folder)
        return "done"

    def daemons_and_hang(self, folder):
        self._daemons(folder)
        time.sleep(1000)

    def daemons_and_crash(self, folder):
        self._daemons(folder)
        ctypes.string_at(0)

    def garbles(self, text):
        import socket, struct
        for descriptor in range(3, 64):
            try:
                line = socket.socket(fileno=os.dup(descriptor))
            except OSError:
                continue
            line.setblocking(True)
            line.sendall(struct.pack("!QQ", len(text.encode()), 0) + text.encode())
        time.sleep(1000)

    def eats_memory(self):
        return torch.ones(4 * 1024**3)

    def shouts(self):
        for _ in range(20000):
            print("x" * 50)
        return "done"
"""


@pytest.fixture(scope="module", autouse=True)
def _foreign_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "foreign_code.py").write_text(HANDLER)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """One for all tests: a crash in one of them must not harm the next."""
    with Worker("foreign_code:Foreign", Limits(60, 2 * 1024**3), name="fake") as worker:
        yield worker


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def gone_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not is_alive(pid)


def test_values_go_over_as_they_are(worker: Worker) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    values = [
        base,
        base.t(),
        base[1:, ::2],
        torch.nn.Parameter(base.bfloat16()),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor(True),
        torch.empty(0, 3, dtype=torch.float16),
        torch.ones(1).expand(5),
        [1, 2.5, float("-inf"), None, "µ", (torch.float16, slice(1, None)), {"a": torch.Size([2])}, {3, 4}, ...],
    ]
    answer = worker.ask("echo", *values)
    assert isinstance(answer, Answer)
    assert not answer.error
    back = answer.value
    for sent, got in zip(values[:-1], back, strict=False):
        assert (got.dtype, got.shape, got.stride()) == (sent.dtype, sent.shape, sent.stride())
        assert torch.equal(got, sent)
    assert isinstance(back[3], torch.nn.Parameter)
    assert back[-1] == values[-1]
    back[0].zero_()
    assert not back[1].any(), "what shared memory shares it again"
    assert not back[2].any()
    assert base.any(), "and not with ours"


@pytest.mark.parametrize(
    ("method", "kind", "signal_name", "said"),
    [
        ("segfault", "signal", "SIGSEGV", "died of SIGSEGV (it read or wrote memory that is not its own)"),
        ("illegal", "signal", "SIGILL", "died of SIGILL (it ran an instruction that this CPU does not have)"),
        ("abort", "signal", "SIGABRT", "died of SIGABRT"),
        ("killed", "killed", "SIGKILL", "was killed from outside"),
        ("leave", "exit", "", "left its process with exit code 3"),
        ("eats_memory", "out_of_memory", "", "found no memory within its limit of 2048 MiB"),
    ],
)
def test_every_end_is_a_result(worker: Worker, method: str, kind: str, signal_name: str, said: str) -> None:
    crash = worker.ask(method, phase="run", graph="a graph of 2 ops")
    assert isinstance(crash, CrashRecord)
    assert (crash.kind, crash.signal, crash.backend, crash.graph) == (kind, signal_name, "fake", "a graph of 2 ops")
    assert said in crash.sentence
    assert "while it ran a graph of 2 ops" in crash.sentence
    if method == "segfault":
        assert crash.op == "aten.relu.default (node relu)"
        assert "about to read address 0" in crash.stderr
        assert "Segmentation fault" in str(crash)
        assert "in segfault" in crash.stderr, "the Python stack at that moment"
    if method == "leave":
        assert crash.exit_code == 3
    after = worker.ask("echo", 1)
    assert isinstance(after, Answer)
    assert after.value == [1], "the next question has a process again"


def test_a_hang_ends_and_takes_along_what_it_started(tmp_path: Path) -> None:
    with Worker("foreign_code:Foreign", Limits(1), name="fake") as worker:
        for method, arguments in (("hang_in_c", ()), ("hang_with_child", (str(tmp_path / "pid"),))):
            crash = worker.ask(method, *arguments, phase="compile")
            assert isinstance(crash, CrashRecord)
            assert (crash.kind, crash.limit) == ("timeout", "1 s")
            assert crash.seconds >= 1
            assert "did not answer within 1 s and was ended while it compiled" in crash.sentence
    assert gone_within(int((tmp_path / "pid").read_text()), 5)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can hold what leaves its session")
@pytest.mark.parametrize("end", ["daemons_and_answer", "daemons_and_hang", "daemons_and_crash"])
def test_what_leaves_its_session_is_ended_too(tmp_path: Path, end: str) -> None:
    """``setsid``, a double fork, an empty environment: when the worker hangs, crashes or is closed, nothing stays."""
    mine = subprocess.Popen(["sleep", "1000"])
    try:
        with Worker("foreign_code:Foreign", Limits(5), name="fake") as worker:
            outcome = worker.ask(end, str(tmp_path))
            kinds = {"daemons_and_answer": None, "daemons_and_hang": "timeout", "daemons_and_crash": "signal"}
            assert (outcome.kind if isinstance(outcome, CrashRecord) else None) == kinds[end], outcome
            pids = [int((tmp_path / name).read_text()) for name in ("own", "daemon")]
            assert all(is_alive(pid) for pid in pids) is (end == "daemons_and_answer")
        assert not any(is_alive(pid) for pid in pids), "they are gone when close returns"
        assert is_alive(mine.pid), "and only they"
    finally:
        mine.kill()
        mine.wait()


@pytest.mark.parametrize("text", ["[" * 100_000, "7", '{"value": {"float": "x"}, "tensors": []}'], ids=["[", "7", "{"])
def test_nonsense_on_the_line_is_a_result(text: str) -> None:
    with Worker("foreign_code:Foreign", Limits(20), name="fake") as worker:
        crash = worker.ask("garbles", text)
    assert isinstance(crash, CrashRecord)
    assert crash.kind == "protocol"


def test_an_exception_is_an_answer_and_not_a_crash(worker: Worker) -> None:
    answer = worker.ask("raises")
    assert isinstance(answer, Answer)
    assert (answer.error, answer.message, answer.op) == ("ValueError", "no such kernel", "aten.mm")
    first = worker.ask("pid")
    assert isinstance(first, Answer)
    shouted = worker.ask("shouts")
    assert isinstance(shouted, Answer)
    assert shouted.value == "done", "a process that prints a megabyte does not wait for a reader"
    assert worker.pid == first.value, "it is still the same process"


def test_an_interrupt_ends_the_child(worker: Worker) -> None:
    # A suite that was started in the background ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _interrupt(worker)
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(worker: Worker) -> None:
    worker.ask("pid")
    pid = worker.pid
    assert pid is not None
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        worker.ask("hang_in_c")
    timer.join()
    assert gone_within(pid, 5)
    answer = worker.ask("echo", 2)
    assert isinstance(answer, Answer)
    assert answer.value == [2]


def test_a_worker_that_nobody_holds_ends() -> None:
    worker = Worker("foreign_code:Foreign")
    worker.ask("pid")
    pid = worker.pid
    assert pid is not None
    del worker
    gc.collect()
    assert gone_within(pid, 5)


def test_a_child_and_its_daemons_do_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = (
        f"import os, sys; sys.path.insert(0, {sys.path[0]!r})\n"
        "from inductor_debug_jupyter.pipeline.isolation import Worker\n"
        "worker = Worker('foreign_code:Foreign')\n"
        f"worker.ask('daemons_and_answer', {str(tmp_path)!r})\n"
        "print(worker.ask('pid').value, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert result.returncode == -signal.SIGKILL, result.stderr
    assert gone_within(int(result.stdout), 10)
    assert all(gone_within(int((tmp_path / name).read_text()), 10) for name in ("own", "daemon"))


def test_a_handler_that_is_not_there_is_a_result() -> None:
    with Worker("nowhere:Nothing", name="fake") as worker:
        crash = worker.ask("echo")
    assert isinstance(crash, CrashRecord)
    assert (crash.kind, crash.phase) == ("exit", "start")
    assert "there is no module 'nowhere'" in crash.stderr


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "a builtins.object cannot go to another process"),
        (lambda: 1, "a builtins.function cannot go"),
        (torch.eye(2).to_sparse(), "layout torch.sparse_coo"),
        (torch.empty(2, device="meta"), "on meta"),
    ],
)
def test_what_cannot_go_over_is_refused_before_anything_starts(value: object, named: str) -> None:
    worker = Worker("foreign_code:Foreign")
    with pytest.raises(CannotSendError, match=named):
        worker.ask("echo", [value])
    assert worker.pid is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0,), "timeout=0; allowed"),
        ((True,), "timeout=True"),
        ((1, 1000), f"memory=1000; allowed: bytes from {LEAST_PROCESS_MEMORY}"),
    ],
)
def test_bad_limits_are_named(arguments: tuple[int, ...], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        Limits(*arguments)
