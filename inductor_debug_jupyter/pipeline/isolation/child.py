"""The worker process: imports a handler, serves requests, and ends when the connection is closed.

A handler is a class without arguments; a request calls one of its methods with positional arguments, and the result or
the exception is sent back. ``SystemExit`` ends the process.
"""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
import threading
import time
import traceback
from typing import Any

from inductor_debug_jupyter.pipeline.isolation import limits, running_op

_GRACE = 30.0
"""Seconds after its time limit at which a step ends itself, in case the caller is gone."""


def main(handler: str, descriptor: int, progress_file: str, memory: int, parent: int) -> None:
    """Serve until the connection is closed."""
    faulthandler.enable(all_threads=False)
    os.set_inheritable(descriptor, False)  # processes of foreign code must not keep the connection open
    limits.limit_this_process(memory or None)
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    running_op.open_for_writing(progress_file)
    # Torch is imported here, under the memory limit, and the handler before any clock runs.
    from inductor_debug_jupyter.pipeline.isolation.import_strings import imported
    from inductor_debug_jupyter.pipeline.isolation.wire import GoneError, Line, Message

    line = Line(socket.socket(fileno=descriptor))
    serving = imported(handler, "handler")()
    line.send(Message({"ready": True, "pid": os.getpid()}))
    while True:
        try:
            request = line.receive()
        except GoneError:
            return
        running_op.write("")
        limits.end_later(float(request.body["seconds"]) + _GRACE)
        reply = _reply(serving, request)
        limits.end_later(0)
        sys.stdout.flush()
        sys.stderr.flush()
        line.send(reply)


def _leave_with(parent: int) -> None:
    """End this process soon after the one that started it."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)


def _reply(handler: Any, request: Any) -> Any:
    """Call the handler's method; the message with its result, or with what it raised."""
    from inductor_debug_jupyter.pipeline.isolation.values import Packer, Unpacker
    from inductor_debug_jupyter.pipeline.isolation.wire import Message

    packer, body = Packer("an answer"), request.body
    try:
        values = Unpacker(body["tensors"], request.blobs).unpack(body["values"])
        written = packer.pack(getattr(handler, body["method"])(*values))
    except Exception as error:
        return Message({"error": _described(error)})
    entries, blobs = packer.memory()
    return Message({"value": written, "tensors": entries}, blobs)


def _described(error: Exception) -> dict[str, Any]:
    inner = getattr(error, "inner_exception", None) or error  # torch wraps what a backend raises
    return {
        "type": type(inner).__name__,
        "message": str(inner).strip(),
        "op": running_op.op_of(inner) or running_op.op_of(error),
        "trace": "".join(traceback.format_exception(inner)),
    }
