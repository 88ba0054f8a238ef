"""The process that has imported torch, and forks a child whenever a test starts a Python; see ``warm_python.py``.

Run as ``python warm_server.py FD``, where FD is its end of a socket pair. It imports what costs time, uses none of it
(a fork after torch has used its threads may hang), and nothing of the package under test: each child imports that by
itself. A request is one JSON line with file descriptors beside it; the answer is the child's process id.

A child is forked twice: the one in between ends at once, so that the process which sent the request, a subreaper
meanwhile, becomes the child's parent. It can then wait for the child, and the child finds its parent, as if it had
been started in the usual way. A child that will start Pythons itself (a JupyterLab, the command line, a pytest) gets a
server of its own, forked from it before it has run anything.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

PRELOADED = (
    *("torch", "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.debug", "torch._inductor.codegen.cpp"),
    *("torch._inductor.codegen.cpp_wrapper_cpu", "torch._inductor.codegen.wrapper", "torch._inductor.cpp_builder"),
    *("torch._dynamo.backends.common", "torch._functorch.aot_autograd", "torch.testing", "torch.fx.experimental"),
    *("msgspec", "safetensors.torch", "jinja2", "rich.console", "rich.table", "rich.progress", "pygments.lexers"),
    *("IPython", "ipykernel.kernelapp", "ipykernel.ipkernel", "ipywidgets", "anywidget", "bqplot", "nbclient"),
)
IMPORTED_BY_A_COMPILE = (
    *("torch._dynamo.backends.distributed", "torch._dynamo.backends.inductor", "torch._dynamo.repro.after_dynamo"),
    *("torch._export.db.logging", "torch.export._trace", "torch.distributed.tensor.experimental"),
    *("torch._functorch._aot_autograd.subclass_codegen", "torch.fx.experimental.validator", "sympy.tensor.tensor"),
    *("sympy.physics.units", "torch._subclasses.schema_check_mode", "torch._inductor.extern_node_serializer"),
    *(f"torch._inductor.fx_passes.{each}" for each in ("fuse_attention", "mkldnn_fusion", "pad_mm", "quantization")),
    *("torch._inductor.fx_passes.freezing_patterns", "torch._inductor.fx_passes.efficient_conv_bn_eval"),
    *(f"torch._inductor.fx_passes.serialized_patterns._sfdp_pattern_{number}" for number in range(1, 30)),
    *(f"torch._inductor.codegen.{each}" for each in ("halide", "pallas", "mps", "mtia", "cpp_wrapper_gpu")),
    *(f"torch._inductor.codegen.{each}" for each in ("cpp_wrapper_mps", "cpp_wrapper_cpu_array_ref", "wrapper_fxir")),
    *("torch._inductor.codegen.cuda_combined_scheduling", "torch._inductor.codegen.xpu.xpu_combined_scheduling"),
)
"""What torch imports when it compiles for the first time, half a second of CPU; not every torch has all of it."""
_PYTHONPATH = os.environ.get("PYTHONPATH", "").split(os.pathsep)
_LARGEST_REQUEST = 1 << 20
_MOST_DESCRIPTORS = 64


def serve(line: socket.socket) -> dict[str, Any]:
    """Answer requests until the line is closed; returns in each forked child, with its request."""
    while True:
        size = array.array("i", [0]).itemsize
        data, ancillary, _, _ = line.recvmsg(_LARGEST_REQUEST, socket.CMSG_SPACE(_MOST_DESCRIPTORS * size))
        if not data:
            os._exit(0)
        received = array.array("i")
        for _, _, part in ancillary:
            received.frombytes(part[: len(part) - len(part) % size])
        while not data.endswith(b"\n"):
            data += line.recv(_LARGEST_REQUEST)
        request: dict[str, Any] = json.loads(data)
        request["received"] = list(received)
        between = fork()
        if between == 0:
            child = fork()
            if child == 0:
                line.close()
                return request
            line.sendall(f"{child}\n".encode())
            os._exit(0)
        os.waitpid(between, 0)
        for descriptor in received:
            os.close(descriptor)


def fork() -> int:
    """Fork without the warning about threads: those here are idle ones of the linear algebra library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def become(request: dict[str, Any]) -> None:
    """Take on descriptors, session, folder, environment and standard streams, as a new interpreter would."""
    if request["start_new_session"]:
        os.setsid()
    targets = request["descriptors"]
    above = max([*targets, *request["received"]]) + 1
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above) for descriptor in request["received"]]
    for target, source in zip(targets, moved, strict=True):
        os.dup2(source, target, inheritable=True)
    for descriptor in {*request["received"], *moved} - set(targets):
        os.close(descriptor)
    while os.getppid() != request["parent"]:  # the process in between has not ended yet
        time.sleep(0.001)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        _reopen(number, name, unbuffered="-u" in request["flags"])


def _reopen(number: int, name: str, *, unbuffered: bool) -> None:
    old = getattr(sys, name)
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffer: Any = io.BufferedReader(raw) if number == 0 else raw if unbuffered else io.BufferedWriter(raw)
    by_line = number == 2 or (number == 1 and raw.isatty())
    stream = io.TextIOWrapper(
        buffer, old.encoding, old.errors, line_buffering=by_line, write_through=unbuffered and number > 0
    )
    stream.mode = old.mode  # type: ignore[misc]
    setattr(sys, name, stream)
    setattr(sys, f"__{name}__", stream)


def execute(arguments: list[str], flags: list[str]) -> None:
    """What ``python FLAGS ARGUMENTS`` does: ``-c CODE``, ``-m MODULE`` or a script."""
    given = [] if "-I" in flags else [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    others = [each for each in sys.path if each not in _PYTHONPATH]
    sys.path[:] = dict.fromkeys([*(str(Path(each).absolute()) for each in given), *others])
    if "-I" not in flags:
        sys.path.insert(0, _first_on_path(arguments[0]))
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), main.__dict__)
    elif arguments[0] == "-m":
        sys.argv = ["-m", *arguments[2:]]
        runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined]
    else:
        sys.argv = list(arguments)
        main.__dict__["__file__"] = arguments[0]
        exec(compile(Path(arguments[0]).read_bytes(), arguments[0], "exec"), main.__dict__)


def _first_on_path(what: str) -> str:
    """Where imports look first: for ``-c`` the working folder at that moment, for a script the script's."""
    if what == "-c":
        return ""
    return str(Path.cwd() if what == "-m" else Path(what).absolute().parent)


def run_to_the_end(request: dict[str, Any]) -> NoReturn:
    """Execute and end as an interpreter does: errors shown, threads awaited, exit functions called, streams flushed.

    Only the memory is left to the system: taking all of torch apart would cost a second, and copy what was shared.
    """
    error = _error_of(execute, request["arguments"], request["flags"])
    late = [_error_of(each) for each in (threading._shutdown, atexit._run_exitfuncs)]  # type: ignore[attr-defined]
    code = 0
    for each in filter(None, [error, *late]):
        code = _shown(each)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code)


def _error_of(function: Callable[..., None], *arguments: Any) -> BaseException | None:
    try:
        function(*arguments)
    except BaseException as error:
        return error
    return None


def _shown(error: BaseException) -> int:
    """The exit code after that error, which is printed without the frames of this file."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in {__file__, runpy.__file__}:
        trace = trace.tb_next
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    return 1


def child_of(line: socket.socket) -> dict[str, Any]:
    """Serve; returns in each child, which is set up to execute its request."""
    request = serve(line)
    while True:
        become(request)
        if not request["passes_on"]:
            return request
        near, far = socket.socketpair()
        if fork() != 0:
            far.close()
            warm_python.install(warm_python.WarmServer(near))
            return request
        # The server of this child's children. It holds nothing open but its line.
        near.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.dup2(far.detach(), 3, inheritable=False)
        os.closerange(4, 1 << 16)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nowhere, descriptor)
        request = serve(socket.socket(fileno=3))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import warm_python

    del sys.path[0]
    for each in PRELOADED:
        importlib.import_module(each)
    for each in IMPORTED_BY_A_COMPILE:
        with contextlib.suppress(ImportError):
            importlib.import_module(each)
    # Answers that torch finds out once a process and keeps: what the compiler can do, and a hash of torch's sources.
    importlib.import_module("torch._inductor.cpu_vec_isa").valid_vec_isa_list()
    importlib.import_module("torch._inductor.codecache").torch_key()
    # Dynamo flushes the CPU's caches to time the guards of each graph: a quarter of a small compile (see conftest.py).
    importlib.import_module("torch._dynamo.guards").profile_guard_manager = lambda *_: 0.0
    gc.collect()
    gc.freeze()  # what is never looked at by the collector stays shared
    run_to_the_end(child_of(socket.socket(fileno=int(sys.argv[1]))))
