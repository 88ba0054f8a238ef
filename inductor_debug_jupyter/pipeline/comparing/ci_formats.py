"""A comparison as JUnit XML and as SARIF 2.1.0, which CI systems read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from inductor_debug_jupyter.pipeline.comparing.changes import KINDS, Change, RunComparison
from inductor_debug_jupyter.pipeline.comparing.gates import GateResult
from inductor_debug_jupyter.pipeline.comparing.text import change_lines, headline
from inductor_debug_jupyter.pipeline.harmless import one_line, plain_lines
from inductor_debug_jupyter.version import __version__

_LEVELS = {"worse": "warning", "better": "note", "other": "note"}


def junit(comparison: RunComparison, results: Sequence[GateResult]) -> str:
    """One test case a gate, and one with every change, which never fails; the figures are properties."""
    failed = sum(bool(result.failures) for result in results)
    name = f"{one_line(comparison.before[1])} → {one_line(comparison.after[1])}"
    counts = {"tests": str(len(results) + 1), "failures": str(failed)}
    suite = ElementTree.Element("testsuite", {"name": f"inductor-debug compare: {name}", **counts})
    properties = ElementTree.SubElement(suite, "properties")
    for each in comparison.quantities:
        for when, value in (("before", each.before), ("after", each.after)):
            known = "not known" if value is None else f"{value:g}"
            ElementTree.SubElement(properties, "property", {"name": f"{each.name}.{when}", "value": known})
    for label, was, now in comparison.environment:
        ElementTree.SubElement(properties, "property", {"name": one_line(label), "value": one_line(f"{was} → {now}")})
    every = ElementTree.SubElement(suite, "testcase", {"classname": "compare", "name": "changes"})
    lines = [headline(comparison), *(line for change in comparison.changes for line in change_lines(change))]
    ElementTree.SubElement(every, "system-out").text = plain_lines("\n".join(lines))
    for result in results:
        case = ElementTree.SubElement(suite, "testcase", {"classname": "compare", "name": result.gate.text})
        if result.failures:
            message = one_line(result.failures[0])
            text = "\n".join(map(one_line, result.failures))
            ElementTree.SubElement(case, "failure", {"message": message}).text = text
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def sarif(comparison: RunComparison, results: Sequence[GateResult]) -> dict[str, Any]:
    """One result a change, at the user's line; an error where a gate fails on it."""
    failing = {id(change) for result in results for change in result.changes}
    changes = list(comparison.all_changes())
    rules = [{"id": kind} for kind in KINDS if any(change.kind == kind for change in changes)]
    found = [_result(change, "error" if id(change) in failing else _LEVELS[change.direction]) for change in changes]
    found += [
        {"ruleId": result.gate.text, "level": "error", "message": {"text": one_line(why)}}
        for result in results
        if not result.changes
        for why in result.failures
    ]
    driver = {"name": "inductor-debug", "version": __version__, "rules": rules}
    return {
        "version": "2.1.0",
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "runs": [{"tool": {"driver": driver}, "results": found}],
    }


def _result(change: Change, level: str) -> dict[str, Any]:
    result: dict[str, Any] = {"ruleId": change.kind, "level": level, "message": {"text": one_line(change.title)}}
    if change.source and change.source.line > 0:
        place = {"artifactLocation": {"uri": change.source.file}, "region": {"startLine": change.source.line}}
        result["locations"] = [{"physicalLocation": place}]
    return result
