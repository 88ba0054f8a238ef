"""``inductor-debug clean``: delete sessions and their files, after asking."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from inductor_debug_jupyter.cli.command import chosen_store, parse_age
from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.harmless import encodable, one_line
from inductor_debug_jupyter.pipeline.options import add_options, parse_size, whole_number
from inductor_debug_jupyter.pipeline.store import CleanReport
from inductor_debug_jupyter.pipeline.store.cleaning import ORPHANED, UNFINISHED

SUMMARY = "delete captured sessions and their files (only what we wrote), and what writers that were killed left behind"

EXAMPLES = """\
  inductor-debug clean --dry-run --older-than 7d   # what would go
  inductor-debug clean --keep-last 20 --yes        # in a script: no question
  inductor-debug clean --max-size 500MiB           # the oldest go until the rest fits
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--older-than", metavar="AGE", help="only sessions older than this: 30m, 12h, 7d, 2w")
    parser.add_argument("--keep-last", metavar="N", help="keep the N newest sessions")
    parser.add_argument("--max-size", metavar="SIZE", help="keep the newest sessions that fit into this: 500MiB, 2GiB")
    parser.add_argument("--dry-run", action="store_true", help="say what would be deleted, and delete nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_options(parser, ["artifacts"])


def run(args: argparse.Namespace) -> int:
    """Plan, ask, delete, report."""
    store = chosen_store(args)
    older_than = None if args.older_than is None else parse_age(args.older_than, "--older-than")
    keep_last = None if args.keep_last is None else whole_number(args.keep_last, "--keep-last", 0)
    max_bytes = None if args.max_size is None else _size(args.max_size)
    plan = store.clean(older_than, keep_last, max_bytes=max_bytes, dry_run=True)
    if not plan.sessions and not plan.deleted:
        if not args.quiet:
            print(f"Nothing to delete in {one_line(str(store.folder))}.")
            _print_kept(plan)
        return 0
    if args.dry_run:
        _print_report(plan, "would be deleted")
        return 0
    if not args.yes and not _confirmed(plan, str(store.folder)):
        print("Nothing was deleted.")
        return 0
    done = store.clean(older_than, keep_last, max_bytes=max_bytes)
    if not args.quiet:
        _print_report(done, "deleted")
    return 0


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise OptionError(f"--max-size: {text!r} is not allowed; {error}") from None


def _confirmed(plan: CleanReport, folder: str) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("clean deletes files and cannot ask without a terminal; say --yes, or --dry-run to look first")
    question = f"Delete {_amount(plan)} from {one_line(folder)}? [y/N] "
    answer = input(encodable(question, sys.stdout.encoding))  # readline writes past sys.stdout
    return answer.strip().lower() in {"y", "yes"}


def _amount(report: CleanReport) -> str:
    counts = Counter(file.reason for file in report.deleted)
    left = {reason: counts[reason] for reason in (UNFINISHED, ORPHANED) if counts[reason]}
    files = words.count(len(report.deleted) - sum(left.values()), "file")
    sessions = [f"{words.count(len(report.sessions), 'session')} with {files}"] if report.sessions else []
    what = " and ".join([*sessions, *(f"{words.count(number, 'file')} {reason}" for reason, number in left.items())])
    return f"{what} ({words.size(report.freed)})"


def _print_report(report: CleanReport, done: str) -> None:
    print(f"{_amount(report)} {done}{':' if report.sessions else '.'}")
    for session in report.sessions:
        print(f"  {one_line(session)}")
    _print_kept(report)


def _print_kept(report: CleanReport) -> None:
    for reason, count in Counter(report.kept_sessions.values()).items():
        print(f"Kept {words.count(count, 'session')}: {reason}.")
    shared = [file for file in report.kept if file.reason.startswith("also used by")]
    if shared:
        print(f"Kept {words.count(len(shared), 'file')}: also used by sessions that stay.")
    for file in report.kept:
        if file not in shared:
            print(f"Kept {one_line(file.path)}: {file.reason}.")
