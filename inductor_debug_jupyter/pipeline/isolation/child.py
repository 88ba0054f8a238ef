"""The other process: imports a handler, answers questions, and ends when the line does.

A handler is a class without arguments; a question calls one of its methods with the values that came along, by
position, and its answer goes back. What a method raises is an answer too. ``SystemExit`` is not: foreign code that
leaves the process leaves it.
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

from inductor_debug_jupyter.pipeline.isolation import limits, progress

_GRACE = 30.0
"""How long after its limit a step ends by itself, should nobody be there to end it."""


def main(handler: str, descriptor: int, progress_file: str, memory: int, parent: int) -> None:
    """Serve until the line is closed."""
    faulthandler.enable(all_threads=False)
    os.set_inheritable(descriptor, False)  # what foreign code starts must not keep the line open
    limits.limit_this_process(memory or None)
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    progress.open_for_writing(progress_file)
    # Torch is imported here, under the memory limit, and the handler before any clock runs.
    from inductor_debug_jupyter.pipeline.isolation.importing import imported
    from inductor_debug_jupyter.pipeline.isolation.wire import GoneError, Line, Message

    line = Line(socket.socket(fileno=descriptor))
    server = _Server(imported(handler, "handler")())
    line.send(Message({"ready": True, "pid": os.getpid()}))
    while True:
        try:
            question = line.receive()
        except GoneError:
            return
        progress.write("")
        limits.end_later(float(question.body["seconds"]) + _GRACE)
        answer = server.answer(question)
        limits.end_later(0)
        sys.stdout.flush()
        sys.stderr.flush()
        line.send(answer)


def _leave_with(parent: int) -> None:
    """End this process soon after the one that started it."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)


class _Server:
    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def answer(self, question: Any) -> Any:
        from inductor_debug_jupyter.pipeline.isolation.values import Packer
        from inductor_debug_jupyter.pipeline.isolation.wire import Message

        packer = Packer("an answer")
        try:
            written = packer.pack(self._value(question))
        except Exception as error:
            return Message({"error": _described(error)})
        entries, blobs = packer.memory()
        return Message({"value": written, "tensors": entries}, blobs)

    def _value(self, question: Any) -> Any:
        from inductor_debug_jupyter.pipeline.isolation.values import Unpacker

        body = question.body
        values = Unpacker(body["tensors"], question.blobs).unpack(body["values"])
        return getattr(self._handler, body["method"])(*values)


def _described(error: Exception) -> dict[str, Any]:
    inner = getattr(error, "inner_exception", None) or error  # torch wraps what a backend raises
    return {
        "type": type(inner).__name__,
        "message": str(inner).strip(),
        "op": progress.op_of(inner) or progress.op_of(error),
        "trace": "".join(traceback.format_exception(inner)),
    }
