"""Files that others wrote, damaged in every way we can think of: only our own errors come of it, one line each.

Real files (sessions, profiles, config files, recordings, the store's index) are mutated by a seeded generator, in their
bytes and in their structure, and used as a user would: through the command line and the loaders. The suite takes a
sample; all 2,000 run with::

    python tests/support/fuzzing.py --all
    python tests/support/fuzzing.py session 417      # one of them again
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import os
import random
import shutil
import sqlite3
import struct
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from hostile import EVIL, control_characters, hostile_session

from inductor_debug_jupyter.cli.main import main
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.records import SessionRecord, dump_session, load_session
from inductor_debug_jupyter.pipeline.store import ArtifactStore

LONGEST_MESSAGE = 1_500

_NUMBERS = ("-1", "0", "1e308", "-0.0", "NaN", "Infinity", str(2**63), str(2**64), str(10**30), "9" * 5_000, "1e999")
_VALUES: tuple[Any, ...] = (
    None, True, False, -1, 0, 3, 2**31, 2**62, -(2**62), 2**63, 2**64, 10**30, 1e308, -1e308, float("nan"),
    float("inf"), 0.5, "", "x", EVIL, "a" * 10_000, "0/0", "dynamo", "nowhere", [], {}, [None], [[]], {"a": 1},
    [1, 2, 3], ["a", "b"], {"": ""},
)  # fmt: skip
_PIECES = (
    b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\0", b"\x1b[2J", b'"', b"\\", b"{", b"}", b"[", b"]", b"=", b"\n",
    b",", b"[" * 100_000, b'{"a":' * 5_000, b"9" * 5_000, b"0x" + b"f" * 5_000, b"NaN", b"1e999999", b'"\\ud800"',
    b"# ",
)  # fmt: skip
_TOML = (
    "nan", "inf", "-inf", "-1", "0", "1e400", "9" * 5_000, "0x" + "f" * 5_000, "[[[[]]]]", "[" * 3_000, "true", "''",
    '"\\u001b[2J"', "1979-05-27", "25:61:61", "{ a = { b = { c = 1 } } }", '"""', "[1, 'a', {}]", '["aten.mm"]',
    "'9GiB'", str(2**63), str(2**62), "1e-300",
)  # fmt: skip


loaded: list[int] = []
"""The damaged sessions that could be loaded: every view was shown of them."""


class WrongError(AssertionError):
    """A damaged file gave something else than our own error in one line."""


# Mutations -----------------------------------------------------------------------------------------------------------


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """One to four changes of bytes."""
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(data) + 1), chance.randrange(1, 200)
        way = chance.randrange(6)
        if way == 0:
            data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
        elif way == 1:
            data = data[:at] + chance.choice(_PIECES) + data[at:]
        elif way == 2:
            data = data[:at] + data[at + length :]
        elif way == 3:
            data = data[:at] + data[at : at + length] * 2 + data[at + length :]
        elif way == 4:
            data = data[:at]
        else:
            data = data[:at] + chance.randbytes(length) + data[at + length :]
    return data


def damaged_value(value: Any, chance: random.Random) -> Any:
    """The same data with one value somewhere in it replaced, deleted, doubled or nested."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        way = chance.random()
        if way < 0.08:
            return {name: each for name, each in value.items() if name != key}
        if way < 0.12:
            return {**value, chance.choice(("", "no_such_key", EVIL)): chance.choice(_VALUES)}
        return {**value, key: damaged_value(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        way = chance.random()
        if way < 0.08:
            return value[:at] + value[at + 1 :]
        if way < 0.12:
            return value + value
        return [*value[:at], damaged_value(value[at], chance), *value[at + 1 :]]
    if chance.random() < 0.1:
        nested: Any = value
        for _ in range(chance.choice((5, 90, 150, 500))):
            nested = [nested] if chance.random() < 0.5 else {"a": nested}
        return nested
    same = [each for each in _VALUES if type(each) is type(value)]
    return chance.choice(same if same and chance.random() < 0.7 else _VALUES)


def lied_about(value: Any, chance: random.Random) -> Any:
    """The same data with one value replaced by another of its type: such a file can be read, and says nonsense."""
    if isinstance(value, dict) and value:
        key = chance.choice(list(value))
        return {**value, key: lied_about(value[key], chance)}
    if isinstance(value, list) and value:
        if chance.random() < 0.1:
            return chance.choice((value + value, value[1:], value[::-1], []))
        at = chance.randrange(len(value))
        return [*value[:at], lied_about(value[at], chance), *value[at + 1 :]]
    same = [each for each in _VALUES if type(each) is type(value) and each not in (2**63, 2**64, 10**30)]
    return chance.choice(same) if same else value


def damaged_json(data: bytes, chance: random.Random) -> bytes:
    """Structure mostly, bytes otherwise."""
    if chance.random() < 0.2:
        return damaged_bytes(data, chance)
    value = json.loads(data)
    change = chance.choice((damaged_value, lied_about))
    for _ in range(chance.randint(1, 5)):
        if "session" in value and chance.random() < 0.95:
            value = {**value, "session": change(value["session"], chance)}
        else:
            value = change(value, chance)
        if not isinstance(value, dict):
            break
    text = json.dumps(value)
    if chance.random() < 0.1:
        text = text.replace(": 0", f": {chance.choice(_NUMBERS)}", chance.randint(1, 3))
    if chance.random() < 0.05:
        text = text.replace('"id"', '"id": 1, "id"', 1)
    return text.encode("utf-8", "surrogatepass")


def damaged_toml(data: bytes, chance: random.Random) -> bytes:
    """Values, lines and tables; bytes otherwise."""
    if chance.random() < 0.3:
        return damaged_bytes(data, chance)
    lines = data.decode().splitlines()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        way = chance.randrange(7)
        if way < 4 and "=" in lines[at]:
            lines[at] = f"{lines[at].partition('=')[0]}= {chance.choice(_TOML)}"
        elif way == 4:
            lines.insert(at, lines[at])
        elif way == 5:
            lines.insert(at, chance.choice((f"{'.'.join('a' * 3_000)} = 1", "[[alignment]]", "[ops]", '"\\u202e" = 1')))
        else:
            del lines[at]
            lines = lines or ["name = 1"]
    return "\n".join(lines).encode()


def damaged_recording(data: bytes, chance: random.Random) -> bytes:
    """The header's structure, the manifest within it, or bytes."""
    if chance.random() < 0.3:
        return damaged_bytes(data, chance)
    (length,) = struct.unpack("<Q", data[:8])
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    if chance.random() < 0.5:
        manifest = json.loads(header["__metadata__"]["inductor_debug"])
        told = damaged_json(json.dumps(manifest).encode(), chance)
        header["__metadata__"]["inductor_debug"] = told.decode("utf-8", "replace")
    else:
        header = damaged_value(header, chance)
    written = json.dumps(header).encode("utf-8", "replace")
    if chance.random() < 0.1:
        rest = rest[: chance.randrange(len(rest) + 1)]
    size = chance.choice((len(written), len(written), len(written), len(written) + 1, 0, 2**63))
    return struct.pack("<Q", size) + written + rest


# Real files ----------------------------------------------------------------------------------------------------------


@cache
def real_sessions() -> tuple[bytes, ...]:
    """A capture of a small model with findings, breaks and a comparison; a record with every field filled."""
    import torch

    from inductor_debug_jupyter import capture

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(12, 20), torch.nn.Linear(20, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = torch.relu(self.first(x))
            torch._dynamo.graph_break()
            return self.second(hidden)

    with tempfile.TemporaryDirectory() as folder:
        with capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=folder) as session:
            Net()(torch.ones(2, 12))
        session.diff("eager", "aot_eager")
        real = dump_session(session.record)
    return real, dump_session(hostile_session("relu", "filled"))


@cache
def real_profiles() -> tuple[bytes, ...]:
    """The built-in profiles, and the example of the documentation."""
    from inductor_debug_jupyter.pipeline.devices import profile, profile_names

    example = (profile.__doc__ or "").partition("::\n\n")[2].partition("\n\nA key that")[0]
    lines = "\n".join(line.removeprefix("    ") for line in example.splitlines())
    folder = resources.files("inductor_debug_jupyter.pipeline.devices") / "profiles"
    return lines.encode(), *((folder / f"{name}.toml").read_bytes() for name in profile_names())


@cache
def real_recording() -> bytes:
    """Tensors of several kinds, plain values, an array."""
    import numpy
    import torch

    from inductor_debug_jupyter.pipeline.diff.recording import Recording

    values = {
        "logits": torch.arange(12.0).reshape(3, 4),
        "ids": torch.arange(5),
        "mask": torch.tensor([True, False]),
        "wave": torch.ones(4, dtype=torch.complex64),
        "half": torch.ones(2, 2, dtype=torch.bfloat16),
        "empty": torch.empty(0, 3),
        "array": numpy.ones(3),
        "loss": 0.5,
        "name": "net",
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Recording(values, {"model": "net", "backend": "eager"}).save(Path(folder) / "real.safetensors")
        return path.read_bytes()


CONFIG = b"""strict = true
target = "stick128"
alignment = 64
max-memory = "1GiB"
dtypes = ["float16"]
deny = ["aten.convolution"]
timeout = 2.5
artifacts = "debug_artifacts"
diff = "eager"
"""


# Uses ----------------------------------------------------------------------------------------------------------------


def _command(*arguments: str) -> None:
    """Run a command; what it prints besides its answer must be one line of ours."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*arguments, "--verbose"] if os.environ.get("FUZZ_VERBOSE") else arguments)
    said = [line for line in err.getvalue().splitlines() if "not checked; import the library" not in line]
    if "unexpected" in err.getvalue() or code not in {0, 1, 2, 3, 4} or len(said) > 1 or (code > 1 and not said):
        raise WrongError(f"{' '.join(arguments)} answered {code}: {err.getvalue()[-3000:]!r}")
    if control_characters(out.getvalue() + err.getvalue()):
        raise WrongError(f"{' '.join(arguments)} sent control characters")
    if any(len(line) > LONGEST_MESSAGE for line in said):
        raise WrongError(f"{' '.join(arguments)} told {len(said[0])} characters")


@contextlib.contextmanager
def _our_errors() -> Iterator[None]:
    try:
        yield
    except InductorDebugError as error:
        if "\n" in str(error) or len(str(error)) > LONGEST_MESSAGE:
            raise WrongError(f"not one line: {str(error)[:500]!r}") from error


def use_session(number: int, folder: Path) -> None:
    """A damaged session in a store that says its file is as it was written, and loaded by its path."""
    chance = random.Random(f"session {number}")
    reals = real_sessions()
    real = reals[number % len(reals)]
    data = damaged_json(real, chance)
    store = ArtifactStore(folder / "debug_artifacts")
    store.save_session(load_session(real))
    (artifact,) = store.artifacts(room="sessions")
    (store.folder / artifact.path).write_bytes(data)
    with contextlib.closing(sqlite3.connect(store.folder / "index.sqlite", isolation_level=None)) as index:
        digest = hashlib.sha256(data).hexdigest()
        index.execute("UPDATE artifacts SET sha256 = ? WHERE room = 'sessions'", (digest,))
        index.execute("UPDATE sessions SET sha256 = ?", (digest,))
    for words in (("show",), ("analyze",), ("analyze", "--type", "guards"), ("analyze", "--type", "constraints")):
        _command(*words)
    _command("show", "--format", "json")
    _command("report", "--format", "json", "--output-dir", "out")
    if number % 10 == 0:
        _command("report", "--output-dir", "out")
    from inductor_debug_jupyter.pipeline.session import DebugSession

    with _our_errors():
        session = DebugSession.load(store.folder / artifact.path)
        loaded.append(number)
        _look_at(session.record)
        session.save(folder / "again.json")


def _look_at(record: SessionRecord) -> None:
    """Every view that the panel shows of a session."""
    from inductor_debug_jupyter.pipeline.views import code, diff, guards, memory, overview, panel, placement, transfers
    from inductor_debug_jupyter.pipeline.views.places import Lookup

    lookup = Lookup(record)
    panel.header_view(record)
    panel.findings_view(record, lookup)
    overview.overview_view(record, lookup)
    guards.guards_view(record)
    transfers.transfers_view(record, lookup)
    placement.placement_views(record.coverage, lookup) if record.coverage else None
    diff.diff_view(record.diff, localization=record.localization) if record.diff else None
    for entry in code.documents_view(record):
        code.document_view(record, entry["id"])
    for each in record.memory:
        memory.memory_view(each)
    for capture in record.captures:
        for stage, graph in capture.graphs.items():
            for node in graph.nodes:
                panel.node_view(lookup, capture.compile_id, stage, node.name)


def use_profile(number: int, folder: Path) -> None:
    """A damaged profile, loaded and used to judge a graph."""
    chance = random.Random(f"profile {number}")
    path = folder / "chip.toml"
    path.write_bytes(damaged_toml(chance.choice(real_profiles()), chance))
    from inductor_debug_jupyter.pipeline.devices import check, load_profile, rules_for

    with _our_errors():
        rules = rules_for(load_profile(str(path)))
        for finding in check(load_session(real_sessions()[0]).captures, rules):
            str(finding)


def use_config(number: int, folder: Path) -> None:
    """A damaged config file, of our own name or in a project's."""
    chance = random.Random(f"config {number}")
    data = damaged_toml(CONFIG, chance)
    if chance.random() < 0.5:
        (folder / "inductor_debug.toml").write_bytes(data)
    else:
        (folder / "pyproject.toml").write_bytes(b"[tool.inductor_debug]\n" + data)
    from inductor_debug_jupyter.pipeline.settings import resolve

    with _our_errors():
        resolve()
    _command("list")


def use_recording(number: int, folder: Path) -> None:
    """A damaged recording, compared with the real one."""
    chance = random.Random(f"recording {number}")
    (folder / "good.safetensors").write_bytes(real_recording())
    (folder / "bad.safetensors").write_bytes(damaged_recording(real_recording(), chance))
    pair = ["good.safetensors", "bad.safetensors"]
    chance.shuffle(pair)
    _command("diff", *pair)
    _command("diff", *pair, "--format", "json")


_CELLS: tuple[Any, ...] = (
    None,
    -1,
    2**62,
    1e308,
    -1e308,
    "",
    EVIL,
    b"\xff\xfe",
    "../../x",
    "/dev/zero",
    "nan",
    "sessions",
)


def use_index(number: int, folder: Path) -> None:
    """A damaged index: its bytes, its rows or its tables."""
    chance = random.Random(f"index {number}")
    store = ArtifactStore(folder / "debug_artifacts")
    store.save_session(hostile_session("relu", "filled"))
    store.write("repros", "r.py", "x", "filled")
    path = store.folder / "index.sqlite"
    if chance.random() < 0.4:
        path.write_bytes(damaged_bytes(path.read_bytes(), chance))
    else:
        _damage_rows(path, chance)
    for words in (
        ("list",),
        ("list", "last"),
        ("list", "--format", "json"),
        ("show",),
        ("clean", "--dry-run"),
        ("clean", "--yes"),
    ):
        _command(*words)
    with _our_errors():
        store.save_session(hostile_session("relu", "after"))


def _damage_rows(path: Path, chance: random.Random) -> None:
    columns = {
        "sessions": ["id", "name", "created", "saved", "target", "graphs", "findings", "sha256"],
        "artifacts": ["sha256", "room", "name", "path", "bytes", "created", "session_id", "part_of_record"],
    }
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as index:
        for _ in range(chance.randint(1, 3)):
            table = chance.choice(list(columns))
            column = chance.choice(columns[table])
            with contextlib.suppress(sqlite3.Error):
                way = chance.randrange(8)
                if way == 0:
                    index.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
                elif way == 1:
                    index.execute(f"DROP TABLE {table}")
                elif way == 2:
                    index.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
                    index.execute(f"CREATE VIEW {table} AS SELECT * FROM old_{table}")
                elif way == 3:
                    index.execute(f"PRAGMA user_version = {chance.choice((-1, 0, 99))}")
                else:
                    index.execute(f"UPDATE {table} SET {column} = ?", (chance.choice(_CELLS),))


USES: dict[str, tuple[Callable[[int, Path], None], int]] = {
    "session": (use_session, 900),
    "profile": (use_profile, 400),
    "recording": (use_recording, 400),
    "config": (use_config, 150),
    "index": (use_index, 150),
}
"""What is damaged, and how many of it make the 2,000."""


def use(kind: str, number: int) -> None:
    """Damage one file and use it, in an empty folder.

    Raises:
        WrongError: something else than our own error, in one line, came of it.
    """
    before, folder = Path.cwd(), Path(tempfile.mkdtemp())
    logging.getLogger("inductor_debug_jupyter").setLevel(logging.ERROR)
    try:
        os.chdir(folder)
        USES[kind][0](number, folder)
    except WrongError:
        raise
    except BaseException as error:
        raise WrongError(f"{type(error).__name__}: {str(error)[:300]}") from error
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)
        logging.getLogger("inductor_debug_jupyter").setLevel(logging.NOTSET)


def run_all(share: float = 1.0) -> int:
    """Use all of them; how many went wrong."""
    wrong: Counter[str] = Counter()
    for kind, (_, total) in USES.items():
        for number in range(int(total * share)):
            try:
                use(kind, number)
            except WrongError as error:
                wrong[kind] += 1
                cause = error.__cause__
                place = traceback.extract_tb(cause.__traceback__)[-1] if cause is not None else ""
                print(f"{kind} {number}: {str(error)[:300]} {place}", flush=True)
        print(f"{kind}: {int(total * share)} damaged files, {wrong[kind]} with something else than our own error")
    print(f"{len(loaded)} of the sessions could be loaded and looked at in every view")
    return sum(wrong.values())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--all"]:
        sys.exit(1 if run_all(float(sys.argv[2]) if len(sys.argv) > 2 else 1.0) else 0)
    use(sys.argv[1], int(sys.argv[2]))
