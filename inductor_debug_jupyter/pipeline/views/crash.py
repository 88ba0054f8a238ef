"""A backend's crash as text: one sentence, and the last lines that its process wrote to stderr."""

from __future__ import annotations

from collections.abc import Iterable

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import CrashRecord, DiffRecord, LocalizationRecord
from inductor_debug_jupyter.pipeline.views.view_types import Row

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


def crash_line(crash: CrashRecord) -> str:
    """One sentence: which backend, how its process ended, and at which graph and op."""
    return plain(f"{crash.backend} {_end(crash)} {_where(crash)}".rstrip())


def crash_text(crash: CrashRecord) -> str:
    """The sentence, and the last lines that the process wrote."""
    lines = [crash_line(crash)]
    if crash.stderr:
        lines += ["the last it wrote:", *(f"  | {line}" for line in stderr_lines(crash))]
    return "\n".join(lines)


def closing_lines(record: DiffRecord | LocalizationRecord) -> list[str]:
    """The end of a comparison's or a search's text: crashes, notes and pictures."""
    crashes = [line for crash in record.crashes for line in crash_text(crash).splitlines()]
    sections = ((f"Crashed ({len(record.crashes):,})", crashes), ("Notes", record.notes), ("Pictures", record.images))
    lines: list[str] = []
    for title, texts in sections:
        if texts:
            lines += ["", title, *(f"  {plain(text)}" for text in texts)]
    return lines


def crash_views(crashes: Iterable[CrashRecord]) -> list[Row]:
    """For a panel: each crash as a sentence, with the lines to unfold."""
    return [Row(text=crash_line(crash), stderr=stderr_lines(crash)) for crash in crashes]


def stderr_lines(crash: CrashRecord) -> list[str]:
    """The last lines that the process wrote to stderr."""
    return [plain(line) for line in crash.stderr.splitlines()]


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
