"""A session in a few lines: what stands in a saved notebook where the panel was."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import SessionRecord, Violation
from inductor_debug_jupyter.pipeline.views.places import model_text, worst_first
from inductor_debug_jupyter.pipeline.views.text import NOTHING_CAPTURED, header_line
from inductor_debug_jupyter.pipeline.words import ICONS

FINDINGS_SHOWN = 3


def short_text(record: SessionRecord) -> str:
    """The header line, a crash and the first findings, one line each; no figure that changes from run to run."""
    lines = [header_line(record, timings=False)]
    if not record.captures:
        lines.append(f"⚠ {NOTHING_CAPTURED}")
    if record.diff is not None and record.diff.crashes:
        lines.append(f"✗ {record.diff.crashes[0].sentence}")
    lines += [finding_line(finding) for _, finding in worst_first(record.findings)[:FINDINGS_SHOWN]]
    if (more := len(record.findings) - FINDINGS_SHOWN) > 0:
        lines.append(f"… and {words.count(more, 'more finding')}; print(session) tells all")
    return "\n".join(plain(line) for line in lines)


def finding_line(finding: Violation) -> str:
    """``✗ 1000 is not a multiple of 64 · modeling_vit.py:547 · classifier [align.innermost]``."""
    where = f" · {model_text(finding.places[0])}" if finding.places else ""
    many = f" ×{len(finding.places):,}" if len(finding.places) > 1 else ""
    return f"{ICONS[finding.severity]} {plain(finding.title)}{where} [{plain(finding.rule_id)}{many}]"
