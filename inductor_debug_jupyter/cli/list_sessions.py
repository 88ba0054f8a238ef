"""``inductor-debug list``: the saved sessions, or what one session stored."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from datetime import UTC, datetime

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.terminal import age_text, print_table, size_text
from inductor_debug_jupyter.pipeline.options import add_options
from inductor_debug_jupyter.pipeline.store import Artifact, ArtifactStore, SavedSession

SUMMARY = "list the captured sessions, or the artifacts of one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="list this session's artifacts: an id, its beginning, or last"
    )
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default table")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the list."""
    store = chosen_store(args)
    if args.session is None:
        _list_sessions(store, args.format)
    else:
        _list_artifacts(store, args.session, args.format)
    return 0


def _list_sessions(store: ArtifactStore, form: str) -> None:
    sessions = store.sessions()
    if form == "json":
        print(json.dumps([_session_data(session) for session in sessions], indent=2))
    elif not sessions:
        print(f"Nothing was captured in {store.folder} yet. Put %%inductor_debug on top of a notebook cell, or try")
        print("inductor-debug quickstart. Another folder: --artifacts DIR.")
    else:
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
                    size_text(session.bytes),
                )
                for session in sessions
            ],
            right=("age", "graphs", "findings", "size"),
        )


def _list_artifacts(store: ArtifactStore, name: str, form: str) -> None:
    session = store.find_session(name)
    artifacts = store.artifacts(session.id)
    if form == "json":
        print(json.dumps([_artifact_data(artifact) for artifact in artifacts], indent=2))
        return
    print_table(
        ("sha256", "room", "size", "path"),
        [
            (artifact.sha256[:12], artifact.room, size_text(artifact.bytes), str(store.folder / artifact.path))
            for artifact in artifacts
        ],
        right=("size",),
    )


def _session_data(session: SavedSession) -> dict[str, object]:
    return asdict(session) | {"saved": _timestamp(session.saved)}


def _artifact_data(artifact: Artifact) -> dict[str, object]:
    return asdict(artifact) | {"created": _timestamp(artifact.created)}


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
