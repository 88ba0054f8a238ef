"""What happens when a strict target refuses: one error with all findings, and a script that shows the first.

The script is minimal: :func:`violation_script` cuts the recorded graph down to the op in question and what it reads.
"""

from __future__ import annotations

import logging

from inductor_debug_jupyter.pipeline.adapters.adapter import errors_of
from inductor_debug_jupyter.pipeline.capture.recorder import CALL
from inductor_debug_jupyter.pipeline.capture.threads import PART as THREADS
from inductor_debug_jupyter.pipeline.devices.judge import RULE
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError, ReproError, StoreError, in_a_line
from inductor_debug_jupyter.pipeline.records import Note, SessionRecord, Violation
from inductor_debug_jupyter.pipeline.repro import violation_script
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.views.text import strict_message

log = logging.getLogger("inductor_debug_jupyter")


_NEEDED = {"dynamo", "aot", "already compiled functions", "compiled functions", "plain modules", THREADS}
_NEEDED_EACH = (RULE, CALL)
"""The parts of a capture, and how the names of others begin, without which the rules did not see everything."""


def unchecked(record: SessionRecord) -> tuple[Note, ...]:
    """What the rules did not see, or a rule that failed: whether the target takes it is unknown."""
    gaps = tuple(note for note in record.notes if note.part in _NEEDED or note.part.startswith(_NEEDED_EACH))
    if record.captures or gaps:
        return gaps
    return (Note("models", "none was called, or none reached the compiler: nothing was captured"),)


def refusal(record: SessionRecord, store: ArtifactStore | None) -> ConstraintViolationError | None:
    """The error of a strict session, or None when all was checked and nothing is refused. Writes a repro if it can."""
    errors, gaps = errors_of(record.findings), unchecked(record)
    if not errors and not gaps:
        return None
    repro = None
    for violation in errors:
        try:
            repro = write_repro(record, violation, store)
            break
        except ReproError as error:
            log.warning("no repro for %s: %s", violation.rule_id, error)
        except StoreError as error:
            log.warning("no repro was written: %s", error)
            break  # the next one would not fare better
        except Exception as error:  # the target refuses, whatever becomes of the script
            log.warning("no repro for %s: unexpected %s", violation.rule_id, in_a_line(error))
    message = strict_message(errors, target=record.target, repro=repro, unchecked=gaps)
    return ConstraintViolationError(message, errors, repro)


def write_repro(record: SessionRecord, violation: Violation, store: ArtifactStore | None) -> str | None:
    """Write the standalone script of one violation under ``repros/``; its path, or None without a store."""
    capture = next((each for each in record.captures if each.compile_id == violation.places[0].compile_id), None)
    if store is None or capture is None:
        return None
    script = violation_script(capture, violation, target=record.target, torch_version=record.torch_version)
    name = f"{violation.rule_id.replace('.', '_')}_{capture.compile_id.replace('/', '_')}.py"
    return str(store.write("repros", name, script, record.id))
