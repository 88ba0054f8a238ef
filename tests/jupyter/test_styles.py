"""The panes' style sheets: all of them are in one page, so a class of one file must not be another file's too."""

from __future__ import annotations

import re
from collections import defaultdict
from importlib.resources import files

SHARED_BY_NAME = {"idj-frame", "idj-line"}
"""Of ``shared.css``; a pane may say more about them."""


def test_a_class_belongs_to_one_pane() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    static = files("inductor_debug_jupyter.jupyter") / "static" / "panel"
    for sheet in static.iterdir():
        if not sheet.name.endswith(".css"):
            continue
        for rule in re.finditer(r"^([^@{}\n]+)\{", sheet.read_text(encoding="utf-8"), re.MULTILINE):
            for selector in rule[1].split(","):
                if found := re.match(r"\s*\.(idj-[a-z0-9-]+)", selector):
                    owners[found[1]].add(sheet.name)
    assert len(owners) > 100, "the sheets were read"
    twice = {name: sheets for name, sheets in owners.items() if len(sheets) > 1 and name not in SHARED_BY_NAME}
    assert twice == {}
