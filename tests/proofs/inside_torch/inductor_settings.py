"""Inductor's settings, changed for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch._inductor.config as inductor_config


@contextmanager
def inductor_fault(name: str) -> Iterator[None]:
    """One of the faults that Inductor's authors test with, such as ``inject_relu_bug_TESTING_ONLY``: wrong numbers."""
    with inductor_config.patch({f"cpp.{name}": "accuracy"}):
        yield


@contextmanager
def compiling_here() -> Iterator[None]:
    """Inductor compiles in this process, not in workers of its own: all of its CPU time is this process's."""
    with inductor_config.patch(compile_threads=1):
        yield
