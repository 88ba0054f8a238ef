"""The panel's modules are joined into one that stands alone, or a mistake in them is found here, not in a notebook."""

from __future__ import annotations

import re

import pytest

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.pipeline.reports import panel_assets as assets
from inductor_debug_jupyter.pipeline.views.panel_parts import EMPTY

MODULES = {
    "panel.js": """import { row, Row } from "./list.js";

const HEIGHT = 3;
function panel() {
  return row(HEIGHT);
}

export default panel;
""",
    "list.js": """import { make } from "./dom.js";

// why
const HEIGHT = 1;
export function row() {}
export class Row {}
""",
    "dom.js": """/** @param {import("./x.js").X} x */
export const make = () => {};
export async function wait() {}
""",
    "unused.js": "export const broken = ;\n",
}


def test_modules_come_after_what_they_import_and_keep_their_names_to_themselves() -> None:
    text = assets.linked(MODULES, "panel.js")
    assert [*re.findall(r"^const (\$\w+) =", text, re.MULTILINE)] == ["$dom", "$list", "$panel"]
    assert "const { row, Row } = $list;" in text
    assert "return { make, wait };" in text
    assert text.endswith("export default $panel.panel;\n")
    assert "import" not in text
    assert "why" not in text, "comments stay at home: every panel takes this text along"


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        (
            {"dom.js": 'import { row } from "./list.js";\nexport const make = 1;\n'},
            "list.js → dom.js → list.js",
        ),
        ({"dom.js": "export const other = 1;\n"}, "list.js imports make, which dom.js does not export"),
        ({"list.js": 'import { make } from "./gone.js";\n'}, "list.js imports gone.js, which is not there"),
        ({"dom.js": 'import * as all from "./list.js";\nexport const make = 1;\n'}, "is not a form that can be joined"),
        ({"dom.js": "export let make = 1;\n"}, "is not a form that can be joined"),
        ({"dom.js": 'export const make = () => import("https://x");\n'}, "is not a form that can be joined"),
        ({"dom.js": "const make = 1;\nexport { make };\n"}, "is not a form that can be joined"),
    ],
)
def test_what_cannot_be_joined_is_refused(changes: dict[str, str], mistake: str) -> None:
    with pytest.raises(assets.LinkError, match=re.escape(mistake)):
        assets.linked({**MODULES, **changes}, "panel.js")


def test_the_page_knows_the_parts_and_asks_what_python_understands() -> None:
    """The two halves are in two languages; what they share is said in both."""
    texts = assets._texts(".js")
    parts = re.search(r"const PARTS = \[(.*?)\];", texts["panel.js"], re.DOTALL)
    assert parts is not None
    assert re.findall(r'"(\w+)"', parts[1]) == list(EMPTY)
    joined = "\n".join(texts.values())
    asked = set(re.findall(r'\bask\(\s*"(\w+)"', joined))
    understood = {each.__struct_config__.tag for each in wire.AnyRequest.__args__}
    assert asked == understood
    assert set(re.findall(r'store\.get\("(\w+)"\)', joined)) <= {*EMPTY, "busy", "failed", "connection"}


def test_the_style_sheet_begins_with_what_is_shared() -> None:
    assert assets.css().startswith("/* Colours and sizes of all panels")
    assert ".idj-diff" in assets.css()
