"""Which torch this is."""

from __future__ import annotations

import torch
from torch.torch_version import TorchVersion

TESTED_FROM = "2.13"
TESTED_BEFORE = "2.14"


def torch_version() -> str:
    """The running torch's version, such as ``2.13.0+cpu``."""
    return str(torch.__version__)


def untested_reason() -> str | None:
    """One sentence when this torch is outside the tested range, else None."""
    version = TorchVersion(torch.__version__)
    if TorchVersion(TESTED_FROM) <= version < TorchVersion(TESTED_BEFORE):
        return None
    return f"torch {version} is outside the tested range (>={TESTED_FROM},<{TESTED_BEFORE}): parts may be missing"
