"""A graph of any size as a tree of boxes: modules, repeated layers, and sections where modules say nothing.

A box always stands for a *run*: ops that follow each other in execution order. Edges go forward in that order, so
closing any set of boxes can never make a cycle, and everything here takes time linear in the number of ops. What has no
module of its own (a gradient's ``add``) joins the run around it.

Three steps, from the leaves up. Runs by module path become nested boxes, and a box with a single thing in it is that
thing. Neighbours that look the same and differ only in a number in their name (``layer.0``, ``layer.1``) become one box
with a count, and so does a pattern of up to :data:`PERIOD` neighbours; one more at either end may differ a little, as
first and last layers do. Loose ops between boxes become a section, and whatever is still wider than :data:`WIDE` is cut
into sections too: by source line, else evenly, and again until each is small enough to look at.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby, pairwise

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import NodeRecord
from inductor_debug_jupyter.pipeline.views import labels
from inductor_debug_jupyter.pipeline.views.labels import label_of

WIDE = 40
"""An open box shows at most about so many things."""
PERIOD = 8
REPEATED = 3
"""So many alike in a row become one box."""
_FEW = 12
"""A repeat of bare ops needs to stand for so many to be worth a box."""
_LOOSE = 6
"""So many ops in a row between boxes become a section."""
_GAP = 4
"""A longer run of ops without a module does not join the very module around it, only the one around that."""
_DIGITS = re.compile(r"\d+")


@dataclass(slots=True, eq=False)
class Box:
    """A run of ops that is drawn as one shape while it is closed.

    ``kind`` is ``graph`` (all of it), ``module``, ``repeat`` (``count`` things alike) or ``section``. ``items`` are
    boxes and positions of ops, in order; ``start`` and ``end`` are positions too. ``id`` is the module's path, with
    ``#2`` for its second run; repeats and sections add their range.
    """

    id: str
    kind: str
    path: str
    start: int
    end: int = 0
    items: list[Box | int] = field(default_factory=list)
    title: str = ""
    count: int = 1
    parent: Box | None = None

    @property
    def ops(self) -> int:
        """How many ops it stands for."""
        return self.end - self.start

    def around(self) -> Iterator[Box]:
        """The boxes that it is in, innermost first, without the whole graph."""
        box = self.parent
        while box is not None and box.parent is not None:
            yield box
            box = box.parent


class Tree:
    """The boxes of one graph.

    Args:
        ops: what is drawn, in execution order.
        modules: module path → class name.
    """

    def __init__(self, ops: Sequence[NodeRecord], modules: dict[str, str]) -> None:
        self.ops = ops
        self.modules = {node.module_path: node.module_type for node in ops} | modules
        self.by_id: dict[str, Box] = {}
        self._signatures: dict[Hashable, int] = {}
        self._of_box: dict[str, int] = {}
        self._inside: dict[str, Box | int] = {}
        self.root = self._runs(_adopted(ops))
        self._finish(self.root)
        self._register(self.root)

    def path_to(self, position: int) -> list[Box]:
        """The boxes that an op is in, outermost first, without the whole graph."""
        found = []
        box: Box | int = self.root
        while isinstance(box, Box):
            if box is not self.root:
                found.append(box)
            box = box.items[bisect_right(box.items, position, key=_start) - 1]
        return found

    def find(self, name: str) -> Box | None:
        """The box of that id or module path; for a module that holds a single box, that one."""
        found: Box | int | None = self.by_id.get(name)
        while found is None and name in self._inside:
            found = self._inside[name]
            name = found.id if isinstance(found, Box) else ""
        return self.by_id.get(found.id) if isinstance(found, Box) else None

    def alone_in_module(self, position: int) -> str:
        """The last part of an op's module path, when the module is nothing but that op (``query``)."""
        path = self.ops[position].module_path
        return path.rpartition(".")[2] if path in self._single_op_modules else ""

    @cached_property
    def _single_op_modules(self) -> set[str]:
        ops = Counter(node.module_path for node in self.ops)
        around = {path.rpartition(".")[0] for path in ops}
        return {path for path, number in ops.items() if number == 1 and path and path not in around}

    # Runs by module ---------------------------------------------------------------------------------------------

    def _runs(self, paths: Sequence[str]) -> Box:
        """The whole graph as nested boxes, one for each run of ops in a module."""
        root = Box("", "graph", "", 0, len(paths))
        stack = [root]
        parts: list[str] = []
        used: dict[str, int] = {}
        for path, run in groupby(range(len(paths)), key=paths.__getitem__):
            positions = list(run)
            wanted = path.split(".") if path else []
            same = shared_length(parts, wanted)
            for box in stack[same + 1 :]:
                box.end = positions[0]
            del stack[same + 1 :]
            parts = wanted
            for depth in range(same, len(parts)):
                full = ".".join(parts[: depth + 1])
                used[full] = used.get(full, 0) + 1
                name = full if used[full] == 1 else f"{full}#{used[full]}"
                box = Box(name, "module", full, positions[0])
                stack[-1].items.append(box)
                stack.append(box)
            stack[-1].items += positions
        for box in stack[1:]:
            box.end = len(paths)
        return root

    def _finish(self, box: Box) -> None:
        """Make the box's inside small enough to look at, its innermost boxes first."""
        for at, item in enumerate(box.items):
            if isinstance(item, Box):
                self._finish(item)
                if len(item.items) == 1:  # a box with one thing in it is that thing
                    box.items[at] = only = item.items[0]
                    self._inside[item.id] = only
        self._of_box[box.id] = self._sign(("box", self.modules.get(box.path, ""), *map(self._signature, box.items)))
        box.title = plain(self._module_title(box))
        box.items = self._sectioned(box, self._gathered(box, self._folded(box, box.items)))

    def _register(self, box: Box) -> None:
        for item in box.items:
            if isinstance(item, Box):
                item.parent = box
                self.by_id[item.id] = item
                self._register(item)

    def _module_title(self, box: Box) -> str:
        last = box.path.rpartition(".")[2]
        return self.modules.get(box.path) or (_last_parts(box.path) if last.isdigit() else last)

    # Repeats ----------------------------------------------------------------------------------------------------

    def _sign(self, key: Hashable) -> int:
        return self._signatures.setdefault(key, len(self._signatures))

    def _signature(self, item: Box | int) -> int:
        """A number that two things share when they look the same: same ops, same shapes, same module classes."""
        if isinstance(item, Box):
            return self._of_box[item.id]
        node = self.ops[item]
        key = (node.target, node.outputs[0].shape, node.outputs[0].dtype) if node.outputs else (node.target,)
        return self._sign(key)

    def _folded(self, box: Box, items: list[Box | int]) -> list[Box | int]:
        """The items with repeats as one box each."""
        if len(items) < REPEATED or (len(items) <= WIDE and not any(isinstance(item, Box) for item in items)):
            return items
        keys = [
            self._sign((self._signature(item), _DIGITS.sub("#", item.path)))
            if isinstance(item, Box)
            else self._signature(item)
            for item in items
        ]
        folded: list[Box | int] = []
        at = 0
        for start, period, times in _repeats(keys, lambda first, end: _worth(items, first, end)):
            end = start + period * times
            pattern = items[start : start + period]
            main = max(range(period), key=lambda each: _end(pattern[each]) - _start(pattern[each]))
            cuts = list(range(start, end + 1, period))
            if start > at and main == period - 1 and self._alike(items[start - 1], pattern[main]):
                cuts.insert(0, start - 1)
            if end < len(items) and main == 0 and self._alike(items[end], pattern[main]):
                cuts.append(end + 1)
            folded += items[at : cuts[0]]
            folded.append(self._repeat(box, [items[a:b] for a, b in pairwise(cuts)], pattern, main))
            at = cuts[-1]
        return [*folded, *items[at:]]

    def _alike(self, one: Box | int, other: Box | int) -> bool:
        """Whether two boxes are the same but for a few ops: first and last layers differ a little."""
        if not isinstance(one, Box) or not isinstance(other, Box):
            return False
        named = _DIGITS.sub("#", one.path) == _DIGITS.sub("#", other.path)
        classes = self.modules.get(one.path, "") == self.modules.get(other.path, "")
        return named and classes and abs(one.ops - other.ops) <= max(2, other.ops // 10)

    def _repeat(self, box: Box, groups: list[list[Box | int]], pattern: list[Box | int], main: int) -> Box:
        times = len(groups)
        members = [self._section(box, group, f"{number} of {times:,}") for number, group in enumerate(groups, 1)]
        names = [each.title if isinstance(each, Box) else labels.op_of(self.ops[each]) for each in pattern]
        others = [name for at, name in enumerate(names) if at != main]
        more = f" + {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else ""
        start, end = _start(groups[0][0]), _end(groups[-1][-1])
        made = Box(f"{box.id}×{start}:{end}", "repeat", box.path, start, end, members)
        made.title, made.count = plain(f"{names[main]}{more} ×{times:,}"), times
        self._of_box[made.id] = self._sign(("repeat", times, *map(self._signature, pattern)))
        made.items = self._sectioned(made, members)
        return made

    # Sections ---------------------------------------------------------------------------------------------------

    def _gathered(self, box: Box, items: list[Box | int]) -> list[Box | int]:
        """Runs of loose ops between boxes as sections."""
        if not any(isinstance(item, Box) for item in items) or len(self.ops) <= WIDE:
            return items
        gathered: list[Box | int] = []
        for is_box, run in groupby(items, key=lambda item: isinstance(item, Box)):
            found = list(run)
            gathered += found if is_box or len(found) < _LOOSE else [self._section(box, found, "")]
        return gathered

    def _sectioned(self, box: Box, items: list[Box | int]) -> list[Box | int]:
        if len(items) <= WIDE:
            return items
        by_line = [list(run) for _, run in groupby(items, key=self._line)]
        if 1 < len(by_line) <= len(items) // 2:
            items = [run[0] if len(run) == 1 else self._section(box, run, self._line(run[0])) for run in by_line]
        if len(items) <= WIDE:
            return items
        step = 10
        while len(items) > WIDE * step:
            step *= 10
        return [self._section(box, items[at : at + step], "") for at in range(0, len(items), step)]

    def _section(self, box: Box, items: list[Box | int], title: str) -> Box | int:
        if len(items) == 1:
            return items[0]
        start, end = _start(items[0]), _end(items[-1])
        made = Box(f"{box.id}[{start}:{end}]", "section", box.path, start, end, items)
        made.title = plain(title or self._span(items))
        self._of_box[made.id] = self._sign(("section", *map(self._signature, items)))
        made.items = self._sectioned(made, items)
        return made

    def _span(self, items: list[Box | int]) -> str:
        """``layer.0 … layer.11`` or ``ops 1–500``: the first and the last."""
        first, last = items[0], items[-1]
        if isinstance(first, Box) and isinstance(last, Box) and first.path != last.path:
            return f"{_last_parts(first.path)} … {_last_parts(last.path)}"
        names = [labels.op_of(self.ops[at]) for at in (_start(first), _end(last) - 1)]
        return f"{names[0]} … {names[1]}" if len(items) <= WIDE else f"ops {_start(first) + 1:,}–{_end(last):,}"

    def _line(self, item: Box | int) -> str:
        """The user's line that an op comes from; boxes are lines of their own."""
        if isinstance(item, Box):
            return item.id
        line = self.ops[item].source or self.ops[item].cell
        return f"{label_of(line)}:{line.line}" if line else ""


def _adopted(ops: Sequence[NodeRecord]) -> list[str]:
    """The module path of each op; ops without a module get what their neighbours share, so that no run is cut.

    The outermost module has an empty path but a class.
    """
    found: list[str] = []
    for has_module, run in groupby(range(len(ops)), key=lambda at: bool(ops[at].module_path or ops[at].module_type)):
        positions = list(run)
        if has_module:
            found += [ops[at].module_path for at in positions]
            continue
        after = ops[positions[-1] + 1].module_path if positions[-1] + 1 < len(ops) else ""
        before = found[-1].split(".") if found else []
        shared = ".".join(before[: shared_length(before, after.split("."))])
        found += [shared if len(positions) <= _GAP else shared.rpartition(".")[0]] * len(positions)
    return found


def shared_length(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of the first parts two paths have in common."""
    differs = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differs, min(len(one), len(other)))


def _start(item: Box | int) -> int:
    return item.start if isinstance(item, Box) else item


def _end(item: Box | int) -> int:
    return item.end if isinstance(item, Box) else item + 1


def _last_parts(path: str) -> str:
    return ".".join(path.split(".")[-2:])


def _worth(items: list[Box | int], start: int, end: int) -> bool:
    """Whether a repeat over these items is worth a box: it holds a box, or stands for many ops."""
    return end - start >= _FEW or any(isinstance(item, Box) for item in items[start : min(end, start + PERIOD)])


def _repeats(keys: list[int], worth: Callable[[int, int], bool]) -> Iterator[tuple[int, int, int]]:
    """Start, period and number of times of each repeat; at each place the one that covers most items."""
    total = len(keys)
    longest = {period: _matches(keys, period) for period in range(1, min(PERIOD, total // REPEATED) + 1)}
    at = 0
    while at < total:
        best = (0, 0, 0)
        for period, matches in longest.items():
            times = matches[at] // period + 1
            covered = times * period
            if times >= REPEATED and covered > best[0] and worth(at, at + covered):
                best = (covered, period, times)
        if best[0]:
            yield at, best[1], best[2]
        at += best[0] or 1


def _matches(keys: list[int], period: int) -> list[int]:
    """For each place, how many keys from there on equal the key ``period`` later."""
    found = [0] * len(keys)
    for at in range(len(keys) - period - 1, -1, -1):
        if keys[at] == keys[at + period]:
            found[at] = found[at + 1] + 1
    return found
