"""Which torch this is, and whether it is one that the tests cover.

``TESTED`` is the only list of torch versions in the project: ``python tests/every_torch.py`` runs the test suite on
each of them, and a test holds pyproject's range and the pinned set against it. That command reads this file in a Python
that has no torch yet, so torch is imported inside the functions.
"""

from __future__ import annotations

import logging

TESTED = ("2.13.0", "2.14.1", "2.15.0")
"""The whole test suite passes on each, oldest first; one for every minor version in between."""

log = logging.getLogger("inductor_debug_jupyter")


def tested_range() -> str:
    """From the first minor version in ``TESTED`` up to, not including, the one after the last: ``>=2.13,<2.16``."""
    oldest, newest = TESTED[0].split("."), TESTED[-1].split(".")
    return f">={oldest[0]}.{oldest[1]},<{newest[0]}.{int(newest[1]) + 1}"


def torch_version() -> str:
    """The running torch's version, such as ``2.13.0+cpu``."""
    import torch

    return str(torch.__version__)


def untested_reason(version: str | None = None) -> str | None:
    """One sentence when that torch (by default, this one) is outside the tested range, else None.

    A nightly of the next minor is outside, and so is a version that cannot be parsed (a local build).
    """
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    version = version or torch_version()
    try:
        if SpecifierSet(tested_range()).contains(Version(version), prereleases=True):
            return None
    except InvalidVersion:
        pass
    return (
        f"torch {version} is outside the tested range ({tested_range()}): "
        "parts of what inductor_debug_jupyter shows may be missing or wrong"
    )


def warn_if_untested() -> None:
    """Say it when this torch is not tested; called once a process, when the door to torch's private names opens."""
    if reason := untested_reason():
        log.warning("%s", reason)
