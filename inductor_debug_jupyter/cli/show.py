"""``inductor-debug show ID``: a session as text, or one stored file."""

from __future__ import annotations

import argparse
import base64
import sys

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.list_sessions import artifact_data
from inductor_debug_jupyter.cli.terminal import print_json, print_own, wants_colour
from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.harmless import ascii_json, one_line
from inductor_debug_jupyter.pipeline.options import add_options
from inductor_debug_jupyter.pipeline.records import dump_session
from inductor_debug_jupyter.pipeline.store import Artifact, ArtifactStore, SavedSession

SUMMARY = "show a session, or an artifact by its path or the beginning of its SHA-256"
EXAMPLES = """\
  inductor-debug show                               # the last session
  inductor-debug show 20261116-08 --format json     # all of it, for a script
  inductor-debug show 3f2a91c0 > kernel.cpp         # an artifact; inductor-debug list last names them
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "id",
        nargs="?",
        default="last",
        metavar="ID",
        help="a session's id or its beginning, last (the default), or an artifact's path or the beginning of its "
        "SHA-256",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default text")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the session or the artifact."""
    store = chosen_store(args)
    found = find(store, args.id)
    if isinstance(found, SavedSession):
        if args.format == "json":
            print(ascii_json(dump_session(store.load(found.id)).decode()))
        else:
            from inductor_debug_jupyter.pipeline.views.text import session_text

            print_own(session_text(store.load(found.id), colour=wants_colour()))
    elif args.format == "json":
        print_json(artifact_data(found) | _content_data(store.read_bytes(found)))
    else:
        _print_artifact(store, found)
    return 0


def find(store: ArtifactStore, name: str) -> SavedSession | Artifact:
    """The session of that name, or else the artifact."""
    try:
        return store.find_session(name)
    except NotFoundError as no_session:
        artifacts = store.artifacts()
        if not artifacts:
            raise
        for artifact in artifacts:
            place = store.folder / artifact.path
            if name in {artifact.path, str(place), str(place.absolute())}:
                return artifact
        try:
            return store.find_artifact(name)
        except NotFoundError as no_artifact:
            # The more helpful of the two: "fits several" beats "there is none".
            raise (no_artifact if "fits" in str(no_artifact) else no_session) from None


def _print_artifact(store: ArtifactStore, artifact: Artifact) -> None:
    """Print it as it is; a terminal gets no control characters and no picture."""
    data = store.read_bytes(artifact)
    text = _text(data)
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(data if text is None or data.endswith(b"\n") else data + b"\n")
    elif text is None:
        place = one_line(str(store.folder / artifact.path))
        print(f"{place} is no text ({words.size(len(data))}); open it there, or send this command's output to a file")
    else:
        print(text, end="" if text.endswith("\n") else "\n")


def _text(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _content_data(data: bytes) -> dict[str, str]:
    text = _text(data)
    return {"base64": base64.b64encode(data).decode()} if text is None else {"text": text}
