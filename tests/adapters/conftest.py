"""A vendor's package that does not behave, importable by other processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

FOREIGN = '''
import ctypes, enum, os, sys
from dataclasses import dataclass

import torch

from inductor_debug_jupyter import AcceleratorAdapter, CompilationResult


class Says(AcceleratorAdapter):
    """Says nothing of itself, and runs op by op."""

    def get_supported_dtypes(self):
        return None

    def get_supported_ops(self):
        return None

    def get_memory_limit(self):
        return None

    def compile(self, gm, inputs):
        return lambda *args: torch.fx.Interpreter(gm).run(*args)


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Fault:
    op: str
    how: str = "segfault"
    level: Level = Level.LOW


def end(how):
    if how == "segfault":
        ctypes.string_at(0)
    elif how == "hang":
        ctypes.PyDLL(None).pause()
    elif how == "abort":
        os.abort()
    elif how == "eat":
        return torch.ones(2 * 1024**3)
    elif how == "exit":
        sys.exit(7)
    elif how == "raise":
        raise RuntimeError("no kernel for this")


class Faulty(Says):
    """Ends as it is told to, at the op that it is told."""

    name = "faulty"

    def __init__(self, fault, when="run", offset=0.0):
        self.fault, self.when, self.offset = fault, when, offset

    def compile(self, gm, inputs):
        fault, when, offset = self.fault, self.when, self.offset
        if when == "compile":
            end(fault.how)
        specs = [{"op": node.name, "level": fault.level.name} for node in gm.graph.nodes if node.op == "call_function"]

        class Device(torch.fx.Interpreter):
            def call_function(self, target, args, kwargs):
                if fault.op in str(target) and when == "run":
                    end(fault.how)
                return super().call_function(target, args, kwargs)

        class Backward(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                end(fault.how)
                return grad

        def run(*args):
            outputs = Device(gm).run(*args)
            if when == "backward":
                outputs = tuple(Backward.apply(out) for out in outputs)
            return tuple(out + offset for out in outputs) if offset else outputs

        return CompilationResult(True, run, kernel_specs=tuple(specs))


def hangs(gm, inputs):
    end("hang")


def plain(gm, inputs):
    return gm.forward
'''


@pytest.fixture(scope="session")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package ``vendor``, on the path of this process and of those that it starts."""
    folder = tmp_path_factory.mktemp("vendor")
    (folder / "vendor.py").write_text(FOREIGN)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    sys.modules.pop("vendor", None)
