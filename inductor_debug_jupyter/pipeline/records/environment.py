"""The machine and the software that a session ran on."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from inductor_debug_jupyter.pipeline.records.in_words import InWords


@dataclass(frozen=True, slots=True)
class EnvironmentRecord(InWords):
    """Where a session ran; what could not be found out is empty.

    Attributes:
        python: the interpreter and its version.
        system: the operating system.
        cpu: the processor's name, the number of logical cores, and the instructions that torch uses.
        compiler: the C++ compiler that Inductor calls, as it introduces itself.
        torch_build: torch's version, the commit that it was built from, and the accelerator toolkit in it.
        settings: torch's settings that differ from their defaults, and environment variables of torch.
        backends: other packages that register a backend of torch.compile: backend → package and version.
    """

    python: str = ""
    system: str = ""
    cpu: str = ""
    compiler: str = ""
    torch_build: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    backends: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """What is known, as names and values, in the order in which it is shown."""
        found: list[tuple[str, str]] = []
        for each in fields(self):
            value = getattr(self, each.name)
            named = _NAMES.get(each.name, each.name)
            found += [(f"{named} {key}", text) for key, text in value.items()] if named in _MANY else [(named, value)]
        return tuple((name, value) for name, value in found if value)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.rows) or "nothing is known about it"


_NAMES = {"torch_build": "torch", "settings": "setting", "backends": "backend", "compiler": "C++ compiler"}
_MANY = ("setting", "backend")
"""The rows of which there is one for each entry."""
