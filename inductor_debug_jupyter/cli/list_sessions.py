"""``inductor-debug list``: the saved sessions, or what one session stored."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from inductor_debug_jupyter.cli.command import chosen_store, parse_since
from inductor_debug_jupyter.cli.terminal import age_text, print_json, print_table
from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.harmless import one_line
from inductor_debug_jupyter.pipeline.options import add_options
from inductor_debug_jupyter.pipeline.store import Artifact, ArtifactStore, SavedSession

SUMMARY = "list the captured sessions, or the artifacts of one"
EXAMPLES = """\
  inductor-debug list                                # every session, the last first
  inductor-debug list --model bert --with-findings   # those that a target refused
  inductor-debug list --since 2h --format json       # for a script
  inductor-debug list last                           # the files of the last session
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="list this session's artifacts: an id, its beginning, or last"
    )
    filters = parser.add_argument_group("filters (a session must pass all of them)")
    filters.add_argument("--model", metavar="TEXT", help="only sessions whose name has this text in it")
    filters.add_argument("--target", metavar="NAME", help="only sessions that were checked against this target")
    filters.add_argument("--since", metavar="AGE|DATE", help="only sessions saved since then: 30m, 2h, 7d, 2026-11-16")
    filters.add_argument("--with-findings", action="store_true", help="only sessions in which something was found")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default table")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    store = chosen_store(args)
    if args.session is None:
        _list_sessions(store, args)
    elif used := _filters(args):
        raise OptionError(f"{used[0]}: a filter is for the list of sessions; leave it or {args.session!r} out")
    else:
        _list_artifacts(store, args.session, args.format)
    return 0


def _filters(args: argparse.Namespace) -> list[str]:
    """The filters that were given, as they were."""
    used = [f"--{name} {value}" for name in ("model", "target", "since") if (value := getattr(args, name)) is not None]
    return [*used, *(["--with-findings"] if args.with_findings else [])]


def _chosen(sessions: Sequence[SavedSession], args: argparse.Namespace) -> list[SavedSession]:
    since = None if args.since is None else parse_since(args.since, "--since")
    return [
        session
        for session in sessions
        if (args.model is None or args.model.casefold() in session.name.casefold())
        and (args.target is None or args.target == session.target)
        and (since is None or session.saved >= since)
        and (not args.with_findings or session.findings)
    ]


def _folder_text(store: ArtifactStore) -> str:
    """How large the folder is, and may get."""
    limit = f"at most {words.size(store.limit)}, then the oldest go" if store.limit else "no limit"
    return f"{one_line(str(store.folder))}: {words.size(store.total_bytes())} ({limit})"


def _list_sessions(store: ArtifactStore, args: argparse.Namespace) -> None:
    sessions = store.sessions()
    chosen = _chosen(sessions, args)
    if args.format == "json":
        print_json([_session_data(session) for session in chosen])
    elif chosen:
        _print_sessions(chosen)
        if not args.quiet and len(chosen) < len(sessions):
            print(f"… and {words.count(len(sessions) - len(chosen), 'session')} that {_filter_text(args)} left out")
        if not args.quiet:
            print(_folder_text(store))
    elif not args.quiet:
        folder = one_line(str(store.folder))
        if sessions:
            print(f"None of the {words.count(len(sessions), 'session')} in {folder} passes {_filter_text(args)}.")
        else:
            print(f"Nothing was captured in {folder} yet. Put %%inductor_debug on top of a notebook cell, or try")
            print("inductor-debug quickstart. Another folder: --artifacts DIR.")


def _filter_text(args: argparse.Namespace) -> str:
    return one_line(" ".join(_filters(args)))


def _print_sessions(sessions: Sequence[SavedSession]) -> None:
    now = time.time()
    print_table(
        ("id", "age", "name", "target", "graphs", "findings", "size"),
        [
            (
                session.id,
                age_text(now - session.saved),
                session.name,
                session.target,
                str(session.graphs),
                str(session.findings),
                words.size(session.bytes),
            )
            for session in sessions
        ],
        right=("age", "graphs", "findings", "size"),
    )


def _list_artifacts(store: ArtifactStore, name: str, form: str) -> None:
    session = store.find_session(name)
    artifacts = store.artifacts(session.id)
    if form == "json":
        print_json([artifact_data(artifact) for artifact in artifacts])
        return
    now = time.time()
    print_table(
        ("sha256", "room", "age", "size", "path"),
        [
            (
                artifact.sha256[:12],
                artifact.room,
                age_text(now - artifact.created),
                words.size(artifact.bytes),
                str(store.folder / artifact.path),
            )
            for artifact in artifacts
        ],
        right=("age", "size"),
    )


def _session_data(session: SavedSession) -> dict[str, object]:
    return asdict(session) | {"saved": _timestamp(session.saved), "age": _age(session.saved)}


def artifact_data(artifact: Artifact) -> dict[str, object]:
    """An artifact as plain data."""
    return asdict(artifact) | {"created": _timestamp(artifact.created), "age": _age(artifact.created)}


def _age(seconds: float) -> float:
    return round(max(time.time() - seconds, 0.0), 1)


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
