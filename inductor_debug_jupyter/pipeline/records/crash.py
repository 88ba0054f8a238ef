"""How a worker process ended before it answered, and what it was doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records.in_words import InWords

CrashKind = Literal["signal", "killed", "exit", "timeout", "out_of_memory", "protocol"]

_MEANING = {
    "SIGSEGV": "it read or wrote memory that is not its own",
    "SIGILL": "it ran an instruction that this CPU does not have",
    "SIGABRT": "it gave up by itself: a failed assertion or an uncaught C++ exception",
    "SIGFPE": "an arithmetic error, such as a whole number divided by 0",
    "SIGBUS": "it touched memory that is not there",
}
_DOING = {
    "start": "while it started",
    "import": "while it was imported",
    "compile": "while it compiled",
    "run": "while it ran",
    "backward": "in the backward of",
}


@dataclass(frozen=True, slots=True)
class CrashRecord(InWords):
    """How a child process ended.

    ``kind`` is ``signal`` (it died of one), ``killed`` (SIGKILL from outside), ``exit`` (it left by itself),
    ``timeout`` (we ended it), ``out_of_memory`` or ``protocol`` (what it sent cannot be read). ``phase`` says how far
    it was: ``start``, ``import``, ``compile``, ``run``, ``backward`` or the name of a check. ``op`` is the op that was
    running, where it is known; ``stderr`` is the end of what the process wrote.
    """

    kind: CrashKind
    backend: str
    graph: str = ""
    phase: str = ""
    op: str = ""
    signal: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    limit: str = ""
    stderr: str = ""

    @property
    def sentence(self) -> str:
        """Which backend, how its process ended, and at which graph and op."""
        return plain(f"{self.backend} {_end(self)} {_where(self)}".rstrip())

    @property
    def stderr_lines(self) -> list[str]:
        """The last lines that the process wrote to stderr."""
        return [plain(line) for line in self.stderr.splitlines()]

    def __str__(self) -> str:
        written = ["the last it wrote:", *(f"  | {line}" for line in self.stderr_lines)] if self.stderr else []
        return "\n".join([self.sentence, *written])


def _end(crash: CrashRecord) -> str:
    if crash.kind == "timeout":
        return f"did not answer within {crash.limit} and was ended"
    if crash.kind == "out_of_memory":
        limit = f" within its limit of {crash.limit}" if crash.limit else ""
        return f"found no memory{limit}"
    if crash.kind == "killed":
        return "was killed from outside (SIGKILL; the system does that when memory runs out)"
    if crash.kind == "exit":
        return f"left its process with exit code {crash.exit_code}"
    if crash.kind == "protocol":
        return "answered something that cannot be read"
    meaning = f" ({_MEANING[crash.signal]})" if crash.signal in _MEANING else ""
    return f"died of {crash.signal}{meaning}"


def _where(crash: CrashRecord) -> str:
    doing = _DOING.get(crash.phase, f"in {crash.phase}" if crash.phase else "")
    named = crash.phase in {"compile", "run", "backward"}
    graph = f" {crash.graph}" if crash.graph and (named or not doing) else ""
    op = f", at {crash.op}" if crash.op else ""
    return f"{doing}{graph}{op}, after {crash.seconds:.1f} s".lstrip(", ")
