from __future__ import annotations

from collections.abc import Callable

from inductor_debug_jupyter.pipeline.records import Place, SessionRecord, SourceLine, Violation
from inductor_debug_jupyter.pipeline.views.text import header_line, session_text, strict_message

Make = Callable[..., SessionRecord]


def test_the_header_is_the_answer_in_one_line(make_record: Make) -> None:
    assert header_line(make_record()) == (
        "MLP on stick128 · strict · 1 graph · 1 break · 1 recompile · ✗ 1 error ⚠ 1 warning ℹ 1 info"
        " · peak 38 MiB of 16 GiB · 1.4 s"
    )


def test_without_findings_a_checked_session_says_so(make_record: Make) -> None:
    assert "✓ no findings" in header_line(make_record(findings=()))


def test_without_a_target_nothing_looks_like_a_pass(make_record: Make) -> None:
    header = header_line(make_record(findings=(), target=""))
    assert "✓" not in header
    assert "not checked" in header


def test_without_captures_it_says_that_nothing_was_checked(make_record: Make) -> None:
    for changes in ({}, {"notes": ()}, {"target": ""}):
        text = session_text(make_record(captures=(), findings=(), **changes))
        assert "NOTHING WAS CHECKED" in text
        assert "✓" not in text


def test_without_captures_it_says_where_to_look(make_record: Make) -> None:
    broken = session_text(make_record(captures=(), findings=(), notes=()))
    assert "Dynamo stopped before the first op" in broken
    plain = session_text(make_record(captures=(), findings=(), notes=(), graph_breaks=()))
    assert "capture(eager=True)" in plain


def test_findings_come_worst_first_with_the_users_own_lines(make_record: Make) -> None:
    text = session_text(make_record())
    assert text.index("✗ error: 784") < text.index("⚠ warning: read") < text.index("ℹ info:")
    assert "  >    3          h = self.ln(x)\n" in text
    assert "       4          h = self.up(h)\n" in text
    assert "seen:    784\n" in text
    assert "allowed: multiples of 64\n" in text
    assert "do:      Pad to 832." in text


def test_breaks_recompiles_gaps_and_notes_are_told(make_record: Make) -> None:
    text = session_text(make_record())
    for told in ("print was called", "Remove the print.", "size of x changed", "nothing required a gradient"):
        assert told in text
    assert "kernels: one was unreadable" in text


def test_the_text_is_the_same_each_time_and_has_no_timings(make_record: Make) -> None:
    assert session_text(make_record()) == session_text(make_record(seconds=99.0))
    assert "1.4 s" in session_text(make_record(), timings=True)


def test_names_cannot_start_lines_or_send_escape_codes(make_record: Make) -> None:
    assert "\x1b" not in session_text(make_record())
    assert not any(part.startswith("\x1b[31m&lt;") for part in session_text(make_record(), colour=True).splitlines())


def test_colour_only_adds_escape_codes(make_record: Make) -> None:
    import re

    coloured = session_text(make_record(), colour=True)
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == session_text(make_record())


def test_what_is_left_out_is_counted(make_record: Make) -> None:
    many = tuple(Violation(f"rule.{number}", "info", f"number {number}", ()) for number in range(120))
    text = session_text(make_record(findings=many))
    assert "… and 70 more findings" in text
    assert "number 119" in session_text(make_record(findings=many), limit=None)


def test_a_strict_failure_shows_the_cells_lines_and_the_repro(make_record: Make) -> None:
    message = strict_message(make_record().findings[1:2], target="stick128", repro="/tmp/repro.py")
    assert message.splitlines()[0] == "stick128 refuses this: 1 error"
    assert "In [4], line 3: h = self.ln(x)" in message
    assert "In [4], line 4: h = self.up(h)" in message
    assert message.endswith("/tmp/repro.py")


def test_a_librarys_line_stands_before_the_cells() -> None:
    cell, deep = (
        SourceLine("c", 2, "y = f(x)", label="In [1]"),
        SourceLine("/lib/f.py", 30, "return x @ w", label="f.py"),
    )
    finding = Violation("r", "error", "no", (Place("0/0", "forward", "mm", source=deep, cell=cell),))
    message = strict_message([finding], target="t")
    assert message.index("f.py, line 30: return x @ w") < message.index("called from In [1], line 2: y = f(x)")
