"""``inductor-debug show ID``: a session as text, or one stored file."""

from __future__ import annotations

import argparse

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.terminal import wants_colour
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.options import add_options
from inductor_debug_jupyter.pipeline.records import dump_session
from inductor_debug_jupyter.pipeline.store import ArtifactStore

SUMMARY = "show a session, or an artifact by the beginning of its SHA-256"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "id",
        nargs="?",
        default="last",
        metavar="ID",
        help="a session's id or its beginning, last (the default), or the beginning of an artifact's SHA-256",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default text")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the session or the artifact."""
    store = chosen_store(args)
    if args.format == "json":
        text = dump_session(store.load(args.id)).decode()
    else:
        text = show_text(store, args.id, colour=wants_colour())
    print(text, end="" if text.endswith("\n") else "\n")
    return 0


def show_text(store: ArtifactStore, name: str, *, colour: bool) -> str:
    """Find a session of that name, or else an artifact, and answer with its text."""
    try:
        session = store.find_session(name)
    except NotFoundError as no_session:
        if not store.artifacts():
            raise
        try:
            return store.read(name)
        except NotFoundError as no_artifact:
            # The more helpful of the two: "fits several" beats "there is none".
            raise (no_artifact if "fits" in str(no_artifact) else no_session) from None
    from inductor_debug_jupyter.pipeline.views.text import session_text

    return session_text(store.load(session.id), colour=colour)
