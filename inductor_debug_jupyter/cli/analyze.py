"""``inductor-debug analyze``: guards, constraints or a summary of one session."""

from __future__ import annotations

import argparse
import difflib
from typing import Any

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.terminal import print_json, print_table
from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.harmless import one_line
from inductor_debug_jupyter.pipeline.options import add_options, whole_number
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.store import ArtifactStore

SUMMARY = "analyze a session's guards, the constraints it violates, or all of it in short"
EXAMPLES = """\
  inductor-debug analyze                                        # the last session in short
  inductor-debug analyze --type guards --limit all              # every guard, break and recompile
  inductor-debug analyze --type constraints --format json last  # what the target refuses
"""
TYPES = ("guards", "constraints", "summary")
_LIMIT = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "session", nargs="?", default="last", metavar="SESSION", help="an id, its beginning, or last (the default)"
    )
    parser.add_argument("--type", default="summary", metavar="TYPE", help=f"{', '.join(TYPES)}; default summary")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default table")
    parser.add_argument(
        "--limit",
        default=str(_LIMIT),
        metavar="N",
        help=f"at most N rows of each kind, all for everything; default {_LIMIT}",
    )
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the analysis."""
    everything = args.limit.strip() == "all"
    limit = None if everything else whole_number(args.limit, "--limit", 1, or_else=", or all")
    if args.type not in TYPES:
        near = difflib.get_close_matches(args.type, TYPES, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise OptionError(f"--type: {args.type!r} is not allowed; allowed: {', '.join(TYPES)}{hint}")
    store = chosen_store(args)
    record = store.load(args.session)
    if args.format == "json":
        print_json({"session": record.id, "model": record.name, **_data(record, store, args.type)})
    elif args.type == "guards":
        _print_guards(record, limit)
    elif args.type == "constraints":
        _print_constraints(record, limit)
    else:
        _print_summary(record, _summary_data(record, store), limit)
    return 0


def _data(record: SessionRecord, store: ArtifactStore, kind: str) -> dict[str, Any]:
    """The analysis as plain data."""
    if kind == "summary":
        return _summary_data(record, store)
    if kind == "guards":
        from inductor_debug_jupyter.pipeline.views.guards import guards_data

        return guards_data(record)
    import msgspec

    return {
        "target": record.target,
        "checked": bool(record.captures and record.target),
        "constraints": msgspec.to_builtins(record.findings),
        "repros": list(record.repros),
    }


def _print_guards(record: SessionRecord, limit: int | None) -> None:
    from inductor_debug_jupyter.pipeline.views.guards import guards_text

    print(f"Session {one_line(record.id)}")
    print(guards_text(record, limit=limit))
    if record.captures and not record.guards:
        print("\nNo guards were recorded in this session, so nothing can be said about what would recompile.")


def _print_constraints(record: SessionRecord, limit: int | None) -> None:
    from inductor_debug_jupyter.pipeline.views.places import worst_first
    from inductor_debug_jupyter.pipeline.views.text import header_line, line_text

    print(f"Session {one_line(record.id)}: {header_line(record, timings=False)}")
    found = [finding for _, finding in worst_first(record.findings)]
    if not found:
        return
    print()
    rows = []
    for finding in found[:limit]:
        line = finding.places[0].line if finding.places else None
        where = line_text(line) if line else "no line known"
        rows.append((finding.severity, finding.rule_id, str(len(finding.places)), finding.title, where))
    print_table(("severity", "rule", "places", "what", "first line"), rows, right=("places",))
    _print_left_out(len(found), limit)
    if record.repros:
        print("\nRepro scripts:")
        for path in record.repros:
            print(f"  {one_line(path)}")
    print(f"\nWith hints and code: inductor-debug show {one_line(record.id)}")


def _print_left_out(total: int, limit: int | None) -> None:
    if limit is not None and total > limit:
        print(f"… and {total - limit} more; --limit all shows them")


def _print_summary(record: SessionRecord, data: dict[str, Any], limit: int | None) -> None:
    from inductor_debug_jupyter.pipeline.views.text import header_line

    print(f"Session {one_line(record.id)}: {header_line(record)}")
    print(f"KernelDiff: {_diff_words(record)}")
    print(f"Guards: {data['guards'] or 'none were recorded'}")
    graphs = data["graphs"]
    if graphs:
        print()
        rows = [
            (
                graph["compile_id"],
                graph["stage"],
                str(graph["ops"]),
                ", ".join(f"{op} ×{number}" for op, number in list(graph["top_ops"].items())[:3]),
                ", ".join(graph["dtypes"]),
            )
            for graph in graphs[:limit]
        ]
        print_table(("compile", "stage", "ops", "most frequent", "dtypes"), rows, right=("ops",))
        _print_left_out(len(graphs), limit)
    if data["rules"]:
        print()
        print_table(
            ("rule", "findings"), [(rule, str(number)) for rule, number in data["rules"].items()], right=("findings",)
        )
    folder = data["folder"]
    counts = [words.count(folder[f"{noun}s"], noun) for noun in ("session", "finding", "benchmark", "artifact")]
    print(f"\n{one_line(folder['path'])}: {', '.join(counts)}")


def _summary_data(record: SessionRecord, store: ArtifactStore) -> dict[str, Any]:
    from collections import Counter

    from inductor_debug_jupyter.pipeline.reports.json_report import session_summary
    from inductor_debug_jupyter.pipeline.store.benchmarks import ROOM

    graphs = [
        {"compile_id": capture.compile_id, "stage": stage, "ops": of.calls, "top_ops": of.ops, "dtypes": of.dtypes}
        for capture in record.captures
        for stage, of in ((stage, graph.statistics) for stage, graph in capture.graphs.items())
    ]
    sessions = store.sessions()
    return {
        "summary": {**session_summary(record), "recompiles": len(record.recompiles)},
        "guards": len(record.guards),
        "kernels": sum(len(capture.kernels) for capture in record.captures),
        "rules": dict(Counter(finding.rule_id for finding in record.findings).most_common()),
        "graphs": graphs,
        "folder": {
            "path": str(store.folder),
            "sessions": len(sessions),
            "findings": sum(session.findings for session in sessions),
            "benchmarks": len(store.artifacts(room=ROOM)),
            "artifacts": len({artifact.path for artifact in store.artifacts()}),
        },
    }


def _diff_words(record: SessionRecord) -> str:
    if record.diff is None:
        return "nothing was compared"
    from inductor_debug_jupyter.pipeline.records.diff import VERDICT_WORDS

    diff = record.diff
    return one_line(f"{VERDICT_WORDS[diff.verdict]} ({diff.reference} against {diff.candidate})")
