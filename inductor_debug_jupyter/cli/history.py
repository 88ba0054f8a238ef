"""``inductor-debug history MODEL``: the figures of a model's saved sessions, oldest first."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from inductor_debug_jupyter.cli.command import chosen_store
from inductor_debug_jupyter.cli.terminal import print_json, print_table
from inductor_debug_jupyter.pipeline.comparing.changes import Quantity
from inductor_debug_jupyter.pipeline.comparing.quantities import quantities_of
from inductor_debug_jupyter.pipeline.errors import NotFoundError, RecordError, StoreError
from inductor_debug_jupyter.pipeline.harmless import one_line
from inductor_debug_jupyter.pipeline.options import add_options, whole_number
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.store import ArtifactStore

SUMMARY = "show how a model's port went over time: the figures of its saved sessions"
EXAMPLES = """\
  inductor-debug history bert               # the sessions whose name has bert in it, oldest first
  inductor-debug history bert --limit 5     # the last five
"""
_SHOWN = ("graphs", "breaks", "recompiles", "kernels", "errors", "fallbacks", "coverage", "memory", "error")
_LIMIT = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("model", metavar="MODEL", help="a text that the session's name has in it")
    parser.add_argument("--limit", default=str(_LIMIT), metavar="N", help=f"the last N sessions; default {_LIMIT}")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="default table")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    limit = whole_number(args.limit, "--limit", 1)
    store = chosen_store(args)
    records, unreadable = _records(store, args.model, limit)
    print_figures(records, args.format)
    if args.format != "json":
        for problem in unreadable:
            print(f"left out: {one_line(problem)}")
    return 0


def print_figures(records: Sequence[SessionRecord], form: str) -> None:
    """A line for each run with its figures, as a table or as JSON."""
    figures = [(record, quantities_of(record, record)) for record in records]
    if form == "json":
        print_json([_data(record, found) for record, found in figures])
    else:
        columns = ("session", "torch", "target", *_SHOWN)
        print_table(columns, [_row(record, found) for record, found in figures], right=_SHOWN)


def _records(store: ArtifactStore, model: str, limit: int) -> tuple[list[SessionRecord], list[str]]:
    """The last sessions of that name, oldest first, and why others could not be read."""
    chosen = [each for each in store.sessions() if model.casefold() in each.name.casefold()][:limit]
    if not chosen:
        raise NotFoundError(f"no session in {store.folder} has {model!r} in its name; inductor-debug list shows them")
    records, problems = [], []
    for saved in reversed(chosen):
        try:
            records.append(store.load(saved.id))
        except (StoreError, RecordError) as error:
            problems.append(f"{saved.id}: {error}")
    return records, problems


def _row(record: SessionRecord, figures: tuple[Quantity, ...]) -> list[str]:
    shown = {each.name: each.text(each.after) for each in figures}
    return [record.id, record.torch_version, record.target, *(shown[name] for name in _SHOWN)]


def _data(record: SessionRecord, figures: tuple[Quantity, ...]) -> dict[str, object]:
    values = {each.name: each.after for each in figures}
    about = {"session": record.id, "name": record.name, "created": record.created}
    return {**about, "torch": record.torch_version, "target": record.target, **values}
