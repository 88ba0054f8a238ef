"""The import graph of the house, room by room: ``python tests/support/rooms.py [WHERE]``.

A room is a folder or a single module of ``inductor_debug_jupyter/pipeline``, and ``jupyter``, ``cli`` and
``benchmarks`` beside it. ``WHERE`` is a folder with a checkout or a git revision; without it, this checkout. With two
of them (``rooms.py HEAD~20 HEAD``) each room has both figures, before → after. A line of the table:

    room             modules   lines  fan-in  fan-out  imports
    pipeline/diff         25   4,100       9       11  adapters capture …

Fan-in counts the rooms that import from it, fan-out those that it imports from; imports for type checking count too.
Needs only Python, and git for a revision.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "inductor_debug_jupyter"


@dataclass
class Room:
    """What one room holds, and the rooms that it imports from."""

    modules: int = 0
    lines: int = 0
    imports: set[str] = field(default_factory=set)


def sources(where: str | None) -> dict[PurePosixPath, str]:
    """Every Python file of the package and of the tests → its text."""
    folder = ROOT if where is None else Path(where)
    if folder.is_dir():
        found = [path for name in (PACKAGE, "tests") for path in (folder / name).rglob("*.py")]
        return {PurePosixPath(path.relative_to(folder).as_posix()): path.read_text(encoding="utf-8") for path in found}
    archive = subprocess.run(
        ["git", "archive", str(where), PACKAGE, "tests"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        members = [member for member in files.getmembers() if member.isfile() and member.name.endswith(".py")]
        return {PurePosixPath(each.name): files.extractfile(each).read().decode() for each in members}  # type: ignore[union-attr]


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module, by the names behind the package's own."""
    if parts[:1] == ("pipeline",) and parts[1:2] not in [(), ("__init__",)]:
        return "/".join(parts[:2])
    return parts[0] if parts[:1] in [("jupyter",), ("cli",), ("benchmarks",)] else "(root)"


def imported(text: str, modules: frozenset[str]) -> Iterator[str]:
    """The modules of the package that a module imports."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{each.name}" for each in node.names]
        else:
            continue
        yield from {name if name in modules else name.rpartition(".")[0] for name in names} & modules


def rooms_of(files: Mapping[PurePosixPath, str]) -> dict[str, Room]:
    """Every room of the package."""
    own = {path: text for path, text in files.items() if path.parts[0] == PACKAGE}
    modules = frozenset(".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in own)
    rooms: dict[str, Room] = {}
    for path, text in own.items():
        name = room_of(path.with_suffix("").parts[1:])
        room = rooms.setdefault(name, Room())
        room.modules += 1
        room.lines += len(text.splitlines())
        room.imports |= {room_of(tuple(each.split(".")[1:])) for each in imported(text, modules)} - {name}
    return rooms


def figures(rooms: Mapping[str, Room], name: str) -> tuple[str, ...]:
    """Modules, lines, fan-in and fan-out of a room."""
    if (room := rooms.get(name)) is None:
        return ("–",) * 4
    fan_in = sum(name in each.imports for each in rooms.values())
    return tuple(f"{number:,}" for number in (room.modules, room.lines, fan_in, len(room.imports)))


def totals(files: Mapping[PurePosixPath, str], top: str) -> tuple[str, ...]:
    """Modules and lines of a top-level folder."""
    texts = [text for path, text in files.items() if path.parts[0] == top]
    return f"{len(texts):,}", f"{sum(len(text.splitlines()) for text in texts):,}", "", ""


def table(*houses: Mapping[PurePosixPath, str]) -> str:
    """The table of one house, or of one before and one after."""
    found = [rooms_of(files) for files in houses]
    lines = [("room", "modules", "lines", "fan-in", "fan-out", "imports")]
    for name in sorted({name for rooms in found for name in rooms}):
        imports = " ".join(each.removeprefix("pipeline/") for each in sorted(found[-1].get(name, Room()).imports))
        lines.append((name, *beside([figures(rooms, name) for rooms in found]), imports))
    for top in (PACKAGE, "tests"):
        lines.append((f"all of {top}", *beside([totals(files, top) for files in houses]), ""))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        f"{line[0]:{widths[0]}}  {line[1]:>{widths[1]}}  {line[2]:>{widths[2]}}  {line[3]:>{widths[3]}}"
        f"  {line[4]:>{widths[4]}}  {line[5]}".rstrip()
        for line in lines
    )


def beside(cells: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """``before → after``; once where nothing changed."""
    return (" → ".join(dict.fromkeys(each)) for each in zip(*cells, strict=True))


def main(arguments: list[str]) -> int:
    """Print the table; 2 when there are more than two places, or one is neither a folder nor a revision."""
    if len(arguments) > 2 or any(each.startswith("-") for each in arguments):
        print(__doc__)
        return 2
    try:
        houses = [sources(where) for where in arguments or [None]]
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode().strip()
        print(f"rooms.py: {said}; allowed: a folder with a checkout, or a git revision", file=sys.stderr)
        return 2
    print(table(*houses))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
