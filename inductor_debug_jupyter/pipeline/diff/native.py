"""The fast way through two tensors: our own C++ (``compare.cpp``), one pass, as many threads as torch uses.

Nobody waits for it. The first comparison of :data:`WORTH_IT` elements or more starts the machine's C++ compiler in a
background thread (a fraction of a second, once for a machine); until the library is there, and wherever there is no
compiler, :mod:`portable` does the same work with torch's ops. It is plain C++ loaded with ctypes: torch's compiler,
its caches and what the user captures know nothing of it. The library is kept in
``$XDG_CACHE_HOME/inductor_debug_jupyter`` (``~/.cache``), under a name made of the source, the compiler and the
processor; ``INDUCTOR_DEBUG_NATIVE=0`` does without. A library whose answer to a small question is wrong is not used.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import logging
import math
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.elements import cut
from inductor_debug_jupyter.pipeline.diff.partial_figures import Limits, Sums, added
from inductor_debug_jupyter.pipeline.diff.portable import portable_sums
from inductor_debug_jupyter.pipeline.settings import given_on_the_line, resolve

log = logging.getLogger("inductor_debug_jupyter")

WORTH_IT: Final = 1 << 15
"""The first comparison of so many elements has the library compiled."""
SHARED: Final = 1 << 20
"""From so many elements on, several threads share the work: they take pieces in turn, since one of them may be held up
by whatever else the machine does."""
_SMALLEST_PIECE: Final = 1 << 17
_LARGEST_PIECE: Final = 1 << 22
_COPIED: Final = 1 << 20
"""Tensors that lie differently are copied so many elements at a time."""

_SOURCE: Final = Path(__file__).with_name("compare.cpp")
_FLAGS: Final = (
    "-O3",
    "-std=c++17",
    "-shared",
    "-fPIC",
    "-fopenmp-simd",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
)
_PATIENCE: Final = 120.0
DTYPES: Final = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.bool: "uint8",
    torch.uint8: "uint8",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
}
"""What the library can read, and its function's name."""


class NativeLibrary:
    """The library: absent, being made, or loaded. ``why_not`` says why it is not there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._functions: dict[str, Any] = {}
        self._builder: threading.Thread | None = None
        self.why_not = "it was not needed yet"

    def function(self, dtype: torch.dtype, elements: int) -> Callable[..., None] | None:
        """What compares tensors of that dtype; None while, or where, there is no library. Never waits."""
        if (on_the_line := given_on_the_line("native")) is not None and not on_the_line.value:
            return None
        if not self._functions and self._builder is None and elements >= WORTH_IT:
            self._start()
        name = DTYPES.get(dtype)
        return None if name is None else self._functions.get(name)

    def wait(self, seconds: float = _PATIENCE) -> bool:
        """Make sure that it is loaded, for benchmarks and tests; whether it is."""
        if self._builder is None:
            self._start()
        if self._builder is not None:
            self._builder.join(seconds)
        return bool(self._functions)

    def _start(self) -> None:
        with self._lock:
            if self._builder is not None:
                return
            self._builder = threading.Thread(target=self._provide, name="inductor-debug-native", daemon=True)
            self._builder.start()

    def _provide(self) -> None:
        """Load the library, having it compiled if need be. Nothing that goes wrong here is the user's trouble."""
        try:
            if not resolve(names=["native"])["native"]:
                self.why_not = "it is switched off (the setting native)"
                return
            compiler = _compiler()
            if compiler is None:
                self.why_not = "there is no C++ compiler (CXX, g++, clang++ or c++)"
                return
            path = _library_path(compiler)
            if not path.exists():
                _compile(compiler, path)
            self._functions = _checked(ctypes.CDLL(str(path)))
            self.why_not = ""
        except subprocess.CalledProcessError as error:
            self.why_not = f"the compiler said: {(error.stderr or b'').decode(errors='replace').strip()[:300]}"
        except Exception as error:
            self.why_not = f"{type(error).__name__}: {error}"
        finally:
            if self.why_not:
                log.debug("comparing goes without the native library: %s", self.why_not)


LIBRARY: Final = NativeLibrary()


def one_pass(reference: torch.Tensor, candidate: torch.Tensor, limits: Limits) -> Sums:
    """The sums over two tensors of the same shape: by the library where it can read them, else by torch's ops.

    Tensors that lie alike and without gaps (channels_last, transposed) are gone through as they lie. Positions count
    row by row.
    """
    reference, candidate = reference.detach(), candidate.detach()
    if reference.is_contiguous() and candidate.is_contiguous():
        return _sums(reference, candidate, limits)
    strides = reference.stride()
    order = sorted(range(reference.ndim), key=lambda dim: -strides[dim])
    one, other = reference.permute(order), candidate.permute(order)
    if one.is_contiguous() and other.is_contiguous():
        sums = _sums(one, other, limits)
        sums.worst = _row_by_row(sums.worst, one, order)
        sums.first_wild = _row_by_row(sums.first_wild, one, order)
        return sums
    return _sums(reference, candidate, limits)


def _sums(reference: torch.Tensor, candidate: torch.Tensor, limits: Limits) -> Sums:
    function = None
    if reference.dtype == candidate.dtype and reference.is_cpu and candidate.is_cpu:
        function = LIBRARY.function(reference.dtype, reference.numel())
    if function is None or reference.is_neg() or candidate.is_neg():
        return portable_sums(reference, candidate, limits)
    if reference.is_contiguous() and candidate.is_contiguous():
        return native_sums(reference, candidate, limits, function)
    pieces = cut(reference, candidate, _COPIED)
    return added(
        (offset, native_sums(one.contiguous(), other.contiguous(), limits, function)) for offset, one, other in pieces
    )


def _row_by_row(position: int, lying: torch.Tensor, order: list[int]) -> int:
    """A position counted as the elements lie, as one that is counted row by row."""
    if position < 0:
        return position
    index = [0] * len(order)
    for dim in reversed(range(len(order))):
        position, index[order[dim]] = divmod(position, lying.shape[dim])
    shape = [lying.shape[order.index(dim)] for dim in range(len(order))]
    place = 0
    for extent, at in zip(shape, index, strict=True):
        place = place * extent + at
    return place


def native_sums(
    reference: torch.Tensor, candidate: torch.Tensor, limits: Limits, function: Callable[..., None]
) -> Sums:
    """The sums over two contiguous CPU tensors of one dtype that the library can read."""
    count, size = reference.numel(), reference.element_size()
    starts = reference.data_ptr(), candidate.data_ptr()
    workers = max(1, torch.get_num_threads()) if count >= SHARED else 1
    if workers == 1:
        sums = Sums()
        function(*starts, count, ctypes.byref(limits), ctypes.byref(sums))
        return sums
    length = min(max(count // (4 * workers), _SMALLEST_PIECE), _LARGEST_PIECE)
    offsets = range(0, count, length)
    parts = [Sums() for _ in offsets]
    turns = itertools.count()

    def work() -> None:
        while (turn := next(turns)) < len(parts):
            begin = offsets[turn]
            addresses = (start + begin * size for start in starts)
            rest = min(length, count - begin)
            function(*addresses, rest, ctypes.byref(limits), ctypes.byref(parts[turn]))

    threads = [threading.Thread(target=work) for _ in range(1, workers)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    return added(zip(offsets, parts, strict=True))


def _compiler() -> str | None:
    for name in (os.environ.get("CXX", "").strip(), "g++", "clang++", "c++"):
        if name and (found := shutil.which(name)):
            return found
    return None


def _library_path(compiler: str) -> Path:
    """Where the library belongs: another source, compiler or processor has another name."""
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=_PATIENCE)  # noqa: S603
    parts = [_SOURCE.read_bytes(), version.stdout, " ".join(_flags()).encode(), _processor().encode()]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "inductor_debug_jupyter" / f"compare-{digest}.so"


def _processor() -> str:
    """What the code is made for: a home folder may be shared by machines that differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.system()} {platform.machine()} {features}"


def _flags() -> tuple[str, ...]:
    own = ("-march=native",) if platform.machine() in {"x86_64", "AMD64"} else ()
    return (*_FLAGS, *own)


def _compile(compiler: str, path: Path) -> None:
    """Into a file of its own first: another process may be doing the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".building-") as folder:
        made = Path(folder) / path.name
        command = [compiler, *_flags(), str(_SOURCE), "-o", str(made)]
        subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE)  # noqa: S603
        made.replace(path)


def _checked(library: ctypes.CDLL) -> dict[str, Any]:
    """Its functions, once they have answered a question whose answer is known."""
    functions = {}
    for name in sorted(set(DTYPES.values())):
        function = getattr(library, f"compare_{name}")
        function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
        function.restype = None
        functions[name] = function
    _probe(functions)
    return functions


def _probe(functions: dict[str, Any]) -> None:
    limits = Limits(0.5, 0.25, 0)
    for name in ("float32", "float16", "bfloat16", "float64"):
        reference = torch.tensor([2.0, -4.0, 0.0, math.inf, 1.0], dtype=getattr(torch, name))
        candidate = torch.tensor([2.0, -7.0, -0.0, math.inf, math.nan], dtype=getattr(torch, name))
        for length, expected in ((3, (3.0, 9.0, 1, 1, 0, 1)), (5, (3.0, 9.0, 2, 2, 1, 1))):
            sums = Sums()
            addresses = (reference.data_ptr(), candidate.data_ptr())
            functions[name](*addresses, length, ctypes.byref(limits), ctypes.byref(sums))
            found = (sums.largest, sums.squares, sums.unequal, sums.outside, sums.wild, sums.worst)
            if found != expected:
                raise ValueError(f"compare_{name} answered {found} where {expected} is right")
