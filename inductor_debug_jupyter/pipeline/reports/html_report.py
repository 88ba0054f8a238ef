"""The report as one page that works from disk: nothing is loaded from elsewhere.

At its top is the session's panel, with saved data in Python's place (``offline_panel``); the rest is text, for search
and print. A Content-Security-Policy allows that one script, by its hash, and forbids others and all requests. Pictures
are ``data:`` addresses, and sections fold with ``<details>``. The template engine escapes every value; the only markup
that passes unescaped is highlighted code, which Pygments has escaped, and this package's own files.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records.diff import VERDICT_ICONS, VERDICT_WORDS
from inductor_debug_jupyter.pipeline.reports import panel_assets, sections
from inductor_debug_jupyter.pipeline.reports.collect import ArtifactsLike, ReportData, collect
from inductor_debug_jupyter.pipeline.views.diff import VERDICT_KINDS
from inductor_debug_jupyter.pipeline.views.places import where_text
from inductor_debug_jupyter.pipeline.views.text import title_text
from inductor_debug_jupyter.pipeline.views.transfers import kernel_json
from inductor_debug_jupyter.pipeline.views.view_types import Row
from inductor_debug_jupyter.pipeline.words import ICONS, clip
from inductor_debug_jupyter.version import __version__

CODE_LINES = 120
"""How many lines of a text are shown; the file in the artifact folder has the rest."""
_LINE_WIDTH = 300
_LONGEST_TEXT = 20_000
_ALIASES = {"c++": "cpp", "triton": "python", "cuda": "cpp"}


def html_report(artifacts: ArtifactsLike = None, sessions: Sequence[str] | None = None) -> str:
    """Sessions and benchmarks as one HTML page; for the arguments see :func:`collect`."""
    return render(collect(artifacts, sessions))


def render(data: ReportData) -> str:
    """The page of a report's data."""
    return template("report.html.j2").render(
        data=data,
        version=__version__,
        title=title_text(data.sessions[0]) if len(data.sessions) == 1 else "Inductor debug report",
        cards=sections.summary_cards(data) if len(data.sessions) != 1 or data.benchmarks else [],
        newest=sections.newest(data.benchmarks),
        older=sections.older(data.benchmarks),
        models=sections.findings_by_model(data.sessions),
        diffs=sections.diffs(data),
        sessions=sections.session_sections(data),
        illustrated=sections.ILLUSTRATED_SESSIONS,
        code_style=_code_style(),
        panel_script=offline_script(),
        panel_style=Markup(panel_assets.css()),  # noqa: S704 - a file of this package
    )


@cache
def offline_script() -> Row:
    """The panels' script, and the hash by which the page's policy knows it."""
    text = panel_assets.esm(panel_assets.OFFLINE)
    digest = b64encode(sha256(text.encode()).digest()).decode()
    return Row(text=Markup(text), hash=f"sha256-{digest}")  # noqa: S704 - a file of this package


def template(name: str) -> Template:
    """A template of this room, with the filters that make values text."""
    return _environment().get_template(name)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("inductor_debug_jupyter.pipeline.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["shown"] = sections.SHOWN
    filters: dict[str, Any] = {
        "plain": lambda text: plain(clip(str(text), _LONGEST_TEXT)),
        "size": words.size,
        "duration": words.duration,
        "figure": figure,
        "line": where_text,
        "code": code,
        "noun": words.count,
        "verdict": lambda verdict: f"{VERDICT_ICONS[verdict]} {VERDICT_WORDS[verdict]}",
        "tone": lambda verdict: VERDICT_KINDS[verdict],
        "icon": lambda severity: ICONS.get(severity, ""),
        "spec": kernel_json,
    }
    environment.filters.update(filters)
    return environment


def figure(value: float | None) -> str:
    """Three significant digits; a dash for None, which stands for unknown or not finite."""
    return "–" if value is None else f"{value:.3g}"


def code(text: str, language: str = "python", limit: int = CODE_LINES) -> Markup:
    """The text, highlighted and escaped by Pygments, cut to ``limit`` lines."""
    lines = text.splitlines()
    shown = "\n".join(clip(plain(line), _LINE_WIDTH) for line in lines[:limit])
    try:
        lexer = get_lexer_by_name(_ALIASES.get(language.lower(), language.lower()), stripnl=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text", stripnl=False)
    marked = Markup(highlight(shown, lexer, HtmlFormatter(nowrap=True)))  # noqa: S704 - escaped by Pygments
    left = len(lines) - limit
    more = Markup('<span class="more">… and {} more lines in the stored file</span>').format(f"{left:,}")
    return marked + more if left > 0 else marked


def _code_style() -> Markup:
    """Pygments' colours for light and dark pages; a constant, so it needs no escaping."""
    light = HtmlFormatter(style="default").get_style_defs("pre.code")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre.code")
    return Markup(f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}")  # noqa: S704 - see above
