"""A bug report: what accelerator teams ask for, as a folder or zip, and a text to paste.

The checklist is that of a vendor's debugging guide: the smallest script, the full error or the wrong value, versions,
the log of transfers, the relevant pieces of graph, code and kernel spec, and the bisection that separates front end
from back end. What a session does not have is left unticked, with how to get it.

The user's source and values of their tensors stay out by default: lines of code are cut from graphs and
scripts, folders from paths, and a script that cannot do without is held back. :attr:`BugReport.held_back` says so.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from inductor_debug_jupyter.pipeline.harmless import Harmless, plain
from inductor_debug_jupyter.pipeline.records import CompileCapture, Culprit, SessionRecord, Violation
from inductor_debug_jupyter.pipeline.repro.graph_script import ORIGIN, OWN_CODE
from inductor_debug_jupyter.pipeline.store.files import explained, write_whole
from inductor_debug_jupyter.pipeline.views.bisect import bisect_text
from inductor_debug_jupyter.pipeline.views.diff import diff_text
from inductor_debug_jupyter.pipeline.views.localization import localization_text
from inductor_debug_jupyter.pipeline.views.text import header_line
from inductor_debug_jupyter.pipeline.views.transfers import kernel_json
from inductor_debug_jupyter.pipeline.words import clip, size

_STAGES: Final = ("dynamo", "forward", "backward", "post_grad", "ir_pre_fusion", "ir_post_fusion", "code")
_AROUND: Final = 6
"""Lines of an excerpt before and behind the one that matters."""
_LONGEST_EXCERPT: Final = 4000

_CODE_OF_A_LINE = re.compile(r"(# File: )(?:\S*/)?([^/\s]+:\d+)( in \w+)?, code: .*")
_LEAST_LINE = 8
_WHERE_OF_A_SCRIPT = re.compile(r"^Where:  .*\n", re.MULTILINE)
_ORIGINS_OF_A_SCRIPT = re.compile(rf"^# {ORIGIN}(\S+): (?:.*/)?([^/\n]+?:\d+)(?: in [\w.]+)?: .*$", re.MULTILINE)


@dataclass(frozen=True)
class BugReport(Harmless):
    """The files of a report: name → text. ``held_back`` is what is not in it, and ``path`` where it was written."""

    files: Mapping[str, str]
    held_back: tuple[str, ...] = ()
    path: Path | None = None

    @property
    def markdown(self) -> str:
        """The text to paste."""
        return self.files["report.md"]

    def write(self, path: str | Path) -> BugReport:
        """Write the files into a new folder, or into one file where ``path`` ends in ``.zip``.

        Raises:
            StoreError: they cannot be written.
        """
        target = Path(path)
        with explained("write", target):
            if target.suffix == ".zip":
                target.parent.mkdir(parents=True, exist_ok=True)
                with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
                    for name, text in self.files.items():
                        archive.writestr(f"{target.stem}/{name}", text)
            else:
                for name, text in self.files.items():
                    file = target / name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(file, text.encode())
        return replace(self, path=target.resolve())

    def __str__(self) -> str:
        lines = [str(self.path) if self.path is not None else "not written yet: .write(path), to a folder or a .zip"]
        lines += [f"  {size(len(text.encode())):>9}  {name}" for name, text in self.files.items()]
        lines += [f"  held back  {what}" for what in self.held_back]
        return "\n".join(lines)


def bug_report(
    record: SessionRecord, *, environment: str = "", include_source: bool = False, include_weights: bool = False
) -> BugReport:
    """The report on a session.

    Args:
        record: the session.
        environment: torch's own description of the machine (``collect_env``).
        include_source: leave the user's lines in graphs and scripts.
        include_weights: let values of the user's tensors into the script.
    """
    draft = _Draft(record, include_source=include_source, include_weights=include_weights)
    draft.collect(environment)
    return BugReport({"report.md": draft.markdown(), **draft.files}, tuple(draft.held_back))


@dataclass
class _Draft:
    """The files so far, and what is held back."""

    record: SessionRecord
    include_source: bool
    include_weights: bool
    files: dict[str, str] = field(default_factory=dict)
    held_back: list[str] = field(default_factory=list)

    def collect(self, environment: str) -> None:
        """Make all files but the text to paste."""
        record = self.record
        self._add_repro()
        self._add("error.txt", "\n\n".join(_errors(record)))
        recorded = str(record.environment) if record.environment is not None else ""
        self._add("environment.txt", "\n\n".join(filter(None, [_versions(record), recorded, environment])))
        events = (*record.transfers, *record.kernel_specs)
        self._add("transfers.txt", "\n".join(plain(str(event)) for event in events))
        self._add("bisect.txt", bisect_text(record.bisect) if record.bisect is not None else "")
        for number, spec in enumerate(record.kernel_specs[:20]):
            self._add(f"kernels/{number:02}_{_file_name(spec.op)}.json", kernel_json(spec))
        if (capture := self._relevant()) is not None:
            self._add_compile(capture)
        if not self.include_source:
            self.held_back.append("lines of your source (include_source=True, --include-source)")

    def _add(self, name: str, text: str) -> None:
        if text.strip():
            self.files[name] = text.rstrip("\n") + "\n"

    def _add_compile(self, capture: CompileCapture) -> None:
        """The graphs and code of one compile, and the kernels that are blamed."""
        for stage in _STAGES:
            name = f"graphs/{_file_name(capture.compile_id)}_{stage}.txt"
            self._add(name, self._without_source(capture.text(stage) or ""))
        blamed = {culprit.kernel for culprit in _culprits(self.record)}
        for kernel in capture.kernels:
            if kernel.name in blamed:
                self._add(f"kernels/{_file_name(kernel.name)}.txt", self._without_source(kernel.code))

    def _add_repro(self) -> None:
        minimal = self.record.minimal
        script = minimal.script if minimal is not None else _read(self.record.repros[-1]) if self.record.repros else ""
        if minimal is not None and minimal.exact_values and not self.include_weights:
            self.held_back.append("repro.py: it holds values of your tensors (include_weights=True, --include-weights)")
        elif OWN_CODE in script and not self.include_source:
            self.held_back.append("repro.py: it holds a function of yours (include_source=True, --include-source)")
        else:
            self._add("repro.py", self._without_source(script))

    def _without_source(self, text: str) -> str:
        if self.include_source:
            return text
        text = _CODE_OF_A_LINE.sub(r"\1\2\3", text)
        for line in _source_lines(self.record):  # torch writes them into its own code, in another form each release
            text = text.replace(line, "…")
        return _ORIGINS_OF_A_SCRIPT.sub(rf"# {ORIGIN}\1: \2", _WHERE_OF_A_SCRIPT.sub("", text))

    def _relevant(self) -> CompileCapture | None:
        """The compile that the finding or the culprit is in, or else the first."""
        places = [place.compile_id for finding in self.record.findings[:1] for place in finding.places[:1]]
        found = [capture for capture in self.record.captures if capture.compile_id in places]
        return next(iter([*found, *self.record.captures]), None)

    def markdown(self) -> str:
        """The text to paste."""
        record = self.record
        lines = [f"# {header_line(record, timings=False)}", "", *self._checklist(), ""]
        if record.minimal is not None:
            lines += ["## Smallest script", "", plain(str(record.minimal).splitlines()[0]), ""]
        if "repro.py" in self.files:
            lines += _fenced(self.files["repro.py"], "python")
        for title, name in (("Error", "error.txt"), ("Which stage", "bisect.txt"), ("Transfers", "transfers.txt")):
            if name in self.files:
                lines += [f"## {title}", "", *_fenced(clip_lines(self.files[name]))]
        for name, text in self._excerpts():
            lines += [f"## {name}", "", *_fenced(text)]
        lines += ["## Environment", "", *_fenced(_versions(record) + f"\n{record.environment or ''}")]
        if self.held_back:
            left_out = "; ".join(what.partition(" (")[0] for what in self.held_back)
            lines.append(f"Left out by the reporter: {left_out}.")
        return "\n".join(lines).rstrip() + "\n"

    def _checklist(self) -> Iterator[str]:
        record = self.record
        has_graph = any(name.startswith("graphs/") for name in self.files)
        backends = record.environment.backends if record.environment is not None else {}
        for there, what, how in (
            ("repro.py" in self.files, "smallest script", "session.minify()"),
            ("error.txt" in self.files, "the error, or the wrong value", "session.diff()"),
            (bool(record.torch_version), f"PyTorch {plain(record.torch_version)}", ""),
            (bool(backends), "version of the backend", "not known: write it here"),
            ("transfers.txt" in self.files, "log of the transfers", "the adapter reports none"),
            (has_graph, "graphs and code of the compile", "nothing was compiled in this session"),
            (bool(record.kernel_specs), "kernel specs", "the adapter gives none"),
            ("bisect.txt" in self.files, "which stage: front end or back end", "session.bisect()"),
        ):
            yield f"- [{'x' if there else ' '}] {what}" + ("" if there or not how else f" ({how})")

    def _excerpts(self) -> Iterator[tuple[str, str]]:
        """The lines around the op in question, of each graph that has it."""
        names = {culprit.node for culprit in _culprits(self.record)[:1]}
        names |= {place.node for finding in self.record.findings[:1] for place in finding.places[:1]}
        for file, text in self.files.items():
            lines = text.splitlines()
            at = next((at for at, line in enumerate(lines) if any(_defines(line, name) for name in names)), None)
            if file.startswith("graphs/") and at is not None:
                yield f"Around the op: {file}", "\n".join(lines[max(at - _AROUND, 0) : at + _AROUND + 1])


def _source_lines(record: SessionRecord) -> list[str]:
    """The user's lines that nodes come from, longest first; not those so short that they may be anything."""
    nodes = (node for capture in record.captures for graph in capture.graphs.values() for node in graph.nodes)
    lines = {line.text.strip() for node in nodes for line in (node.source, node.cell) if line is not None}
    return sorted((line for line in lines if len(line) >= _LEAST_LINE), key=len, reverse=True)


def _defines(line: str, name: str) -> bool:
    return bool(name) and re.match(rf"\s*{re.escape(name)}\b.*=", line) is not None


def _culprits(record: SessionRecord) -> tuple[Culprit, ...]:
    if record.localization is not None and record.localization.culprits:
        return record.localization.culprits
    return record.bisect.culprits if record.bisect is not None else ()


def _errors(record: SessionRecord) -> Iterator[str]:
    """What is wrong, in full."""
    errors: list[Violation] = [finding for finding in record.findings if finding.severity == "error"]
    for finding in errors:
        texts = (finding.title, f"seen: {finding.observed}", f"allowed: {finding.allowed}")
        yield "\n".join([finding.rule_id, *map(plain, texts)])
    if record.diff is not None and not record.diff.passed:
        yield diff_text(record.diff)
    if record.localization is not None and (record.localization.culprits or record.localization.crashes):
        yield localization_text(record.localization)


def _versions(record: SessionRecord) -> str:
    return f"torch: {plain(record.torch_version)}\ninductor_debug_jupyter: {plain(record.tool_version)}"


def _fenced(text: str, language: str = "") -> list[str]:
    """A block of code; its fence is longer than any in the text."""
    longest = max((len(found) for found in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return [f"{fence}{language}", text.rstrip("\n"), fence, ""]


def clip_lines(text: str) -> str:
    """The beginning of a long text; the whole is in its file."""
    return text if len(text) <= _LONGEST_EXCERPT else clip(text, _LONGEST_EXCERPT)


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text)[:60] or "unnamed"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
