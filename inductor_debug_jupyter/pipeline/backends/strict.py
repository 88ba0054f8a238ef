"""What happens when a strict target refuses: one error with all findings, and a script that shows the first.

The script is minimal: :func:`violation_script` cuts the recorded graph down to the op in question and what it reads.
"""

from __future__ import annotations

import logging

from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError, ReproError, StoreError
from inductor_debug_jupyter.pipeline.records import SessionRecord, Violation
from inductor_debug_jupyter.pipeline.repro import violation_script
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.views.text import strict_message

log = logging.getLogger("inductor_debug_jupyter")


def errors_of(record: SessionRecord) -> tuple[Violation, ...]:
    """The findings that strict mode fails on."""
    return tuple(violation for violation in record.findings if violation.severity == "error")


def refusal(record: SessionRecord, store: ArtifactStore | None) -> ConstraintViolationError | None:
    """The error of a strict session, or None when nothing is refused. Writes the repro when it can."""
    errors = errors_of(record)
    if not errors:
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
    return ConstraintViolationError(strict_message(errors, target=record.target, repro=repro), errors, repro)


def write_repro(record: SessionRecord, violation: Violation, store: ArtifactStore | None) -> str | None:
    """Write the standalone script of one violation under ``repros/``; its path, or None without a store."""
    capture = next((each for each in record.captures if each.compile_id == violation.places[0].compile_id), None)
    if store is None or capture is None:
        return None
    script = violation_script(capture, violation, target=record.target, torch_version=record.torch_version)
    name = f"{violation.rule_id.replace('.', '_')}_{capture.compile_id.replace('/', '_')}.py"
    return str(store.write("repros", name, script, record.id))
