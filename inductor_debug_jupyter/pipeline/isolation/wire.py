"""One message: its length, JSON, and tensors as safetensors."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import safetensors.torch
import torch

from inductor_debug_jupyter.pipeline.reading import MalformedError, parsed

_LENGTHS = struct.Struct("!QQ")
_LARGEST = 1 << 44
_CHUNK = 1 << 20
_PATIENCE = 0.2
"""Seconds between two checks that the other process is alive while waiting."""


class GoneError(Exception):
    """The other process closed the connection."""


class TooLateError(Exception):
    """The other process did not answer in time."""


class GarbledError(Exception):
    """The received bytes are no message."""


@dataclass(frozen=True, slots=True)
class Message:
    """JSON, and pieces of memory by name."""

    body: Mapping[str, Any]
    blobs: Mapping[str, torch.Tensor] = field(default_factory=dict)


class Line:
    """One end of a connection; ``is_alive`` (is the other process?) is called now and then while waiting."""

    def __init__(self, connection: socket.socket, is_alive: Callable[[], bool] = lambda: True) -> None:
        self._connection = connection
        self._is_alive = is_alive
        connection.setblocking(False)

    def send(self, message: Message, until: float | None = None) -> None:
        """Send one message.

        Raises:
            GoneError: the other process has ended.
            TooLateError: it does not read the message before ``until`` (``time.monotonic``).
        """
        text = msgspec.json.encode(message.body)
        tensors = safetensors.torch.save(dict(message.blobs)) if message.blobs else b""
        for part in (_LENGTHS.pack(len(text), len(tensors)) + text, tensors):
            rest = memoryview(part)
            while rest:
                self._wait(until, sending=True)
                try:
                    rest = rest[self._connection.send(rest[:_CHUNK]) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise GoneError from error

    def receive(self, until: float | None = None) -> Message:
        """Wait for one message.

        Raises:
            GoneError: the other process has ended.
            TooLateError: no message arrives before ``until``.
            GarbledError: it cannot be decoded.
        """
        text_length, tensors_length = _LENGTHS.unpack(self._take(_LENGTHS.size, until))
        if max(text_length, tensors_length) > _LARGEST:
            raise GarbledError(f"a message of {text_length} + {tensors_length} bytes")
        text, tensors = self._take(text_length, until), self._take(tensors_length, until)
        try:
            body = parsed(lambda: msgspec.json.decode(text))
            blobs = parsed(lambda: safetensors.torch.load(bytes(tensors))) if tensors else {}
            return Message(body if isinstance(body, dict) else {}, blobs)
        except (MalformedError, safetensors.SafetensorError) as error:
            raise GarbledError(str(error)) from error

    def _take(self, count: int, until: float | None) -> bytearray:
        taken = bytearray()
        while len(taken) < count:
            self._wait(until, sending=False)
            try:
                part = self._connection.recv(min(count - len(taken), _CHUNK))
            except BlockingIOError:
                continue
            except OSError as error:
                raise GoneError from error
            if not part:
                raise GoneError
            taken += part
        return taken

    def _wait(self, until: float | None, *, sending: bool) -> None:
        """Wait for the socket. A process that has died may have left its end open in its own children."""
        ends = [self._connection]
        while True:
            left = _PATIENCE if until is None else min(_PATIENCE, until - time.monotonic())
            alive = self._is_alive()
            if any(select.select([] if sending else ends, ends if sending else [], [], max(left, 0))):
                return
            if not alive:
                raise GoneError
            if until is not None and time.monotonic() >= until:
                raise TooLateError

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
