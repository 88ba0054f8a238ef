"""The page: whole, self-contained, and deaf to what names say."""

from __future__ import annotations

import json
import re
import struct
import zlib
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from inductor_debug_jupyter.pipeline.comparing import compare_runs
from inductor_debug_jupyter.pipeline.comparing.ci_formats import junit, sarif
from inductor_debug_jupyter.pipeline.comparing.gates import check, read_gates
from inductor_debug_jupyter.pipeline.errors import NotFoundError, StoreError
from inductor_debug_jupyter.pipeline.records import (
    CoverageRecord,
    Culprit,
    EnvironmentRecord,
    Fallback,
    GraphBreak,
    GraphCoverage,
    Guard,
    Heatmap,
    LocalizationRecord,
    MemoryRecord,
    Phase,
    SessionRecord,
    SourceLine,
    Violation,
)
from inductor_debug_jupyter.pipeline.reports import HTMLReportGenerator, html_report
from inductor_debug_jupyter.pipeline.reports.comparison_page import comparison_page
from inductor_debug_jupyter.pipeline.reports.html_report import code
from inductor_debug_jupyter.pipeline.reports.images import heatmap_image, stored_image
from inductor_debug_jupyter.pipeline.store import ArtifactStore, save_benchmark

from .conftest import EVIL, EVIL_CLOSER, benchmark, hostile_session, plain_session

VOID = {"meta", "link", "br", "img"}


class Page(HTMLParser):
    """Elements, their attributes and the text of a page; notices what is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.text = ""
        self.scripts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and "script" not in self.open:
            self.text += data
        elif "script" in self.open:
            self.scripts.append(data)

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.elements if tag == name]


def assert_only_our_script(page: Page) -> None:
    """The page's own script, which its policy knows by its hash, and data that can be no markup."""
    (policy,) = [str(attrs["content"]) for attrs in page.tags("meta") if "http-equiv" in attrs]
    code = [text for attrs, text in zip(page.tags("script"), page.scripts, strict=True) if attrs["type"] == "module"]
    data = [text for attrs, text in zip(page.tags("script"), page.scripts, strict=True) if attrs["type"] != "module"]
    assert len(code) == 1
    assert f"script-src 'sha256-{b64encode(sha256(code[0].encode()).digest()).decode()}';" in policy
    assert all(re.fullmatch(r"[\w+/=]+", text.strip()) for text in data)
    assert {attrs["type"] for attrs in page.tags("script")} <= {"module", "application/gzip"}
    assert not [attrs for attrs in page.tags("script") if "src" in attrs]


def test_transfers_and_kernel_specs_are_in_the_page(full_store: ArtifactStore) -> None:
    text = Page(html_report(full_store)).text
    assert "1 transfer to the device (256 B), 1 kernel" in text
    assert f"copy_to_device: shape=[65] dtype={EVIL} device_layout=[2, 64]" in text


def test_hostile_names_stay_text(full_store: ArtifactStore) -> None:
    html = html_report(full_store)
    page = Page(html)
    assert (page.wrong, page.open) == ([], []), "a name closed or opened an element"
    assert_only_our_script(page)
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    assert {str(attrs["src"])[:14] for attrs in page.tags("img")} <= {
        "data:image/svg+",
        "data:image/svg",
        "data:image/png",
    }
    assert EVIL not in html
    assert EVIL in page.text, "it is shown as what it is"
    assert EVIL_CLOSER in page.text


def test_nothing_is_loaded_from_elsewhere(full_store: ArtifactStore) -> None:
    html = html_report(full_store)
    page = Page(html)
    addresses = [str(attrs[name]) for _, attrs in page.elements for name in ("src", "href") if attrs.get(name)]
    assert addresses
    assert all(address.startswith(("data:", "#")) for address in addresses)
    assert not re.search(r"url\((?!\))", re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))
    assert "@import" not in html
    (policy,) = [attrs["content"] for attrs in page.tags("meta") if "http-equiv" in attrs]
    assert str(policy).startswith("default-src 'none'; script-src 'sha256-")
    assert "img-src data: blob:;" in str(policy)
    anchors = {attrs["href"] for attrs in page.tags("a")}
    ids = {f"#{attrs['id']}" for _, attrs in page.elements if attrs.get("id")}
    assert anchors <= ids


def test_every_part_is_there(full_store: ArtifactStore) -> None:
    text = Page(html_report(full_store)).text
    for part in ("Graph breaks (1)", "Recompiles (1)", "Guards (2)", "Bisect", "Not captured (1)", "Notes (1)"):
        assert part in text
    for part in ("Repro scripts (1)", "Artifacts", "Where the errors are", "dtype · ⚠ 1 warning", "align · ✗ 1 error"):
        assert part in text
    assert "3.00×" in text, "the newest benchmark's speed-up"
    assert "1 earlier result" in text
    assert "2.00×" in text
    assert "mock_backend failed:" in text
    assert "h = up(h)" in text, "the user's line"
    assert "✗ mismatch" in text


def test_the_summary_counts_only_what_was_compared(store: ArtifactStore) -> None:
    for name in ("one", "two"):
        store.save_session(plain_session(name))
    text = Page(html_report(store)).text
    assert "KernelDiff–nothing was compared" in text
    assert "Without errors100%2 of 2 checked sessions" in text
    assert "Benchmarks" not in text
    store.save_session(hostile_session())
    text = Page(html_report(store)).text
    assert "KernelDiff0%0 of 1 comparison" in text
    assert "Without errors67%2 of 3 checked sessions" in text


def test_a_report_of_one_session_is_about_that_session(store: ArtifactStore) -> None:
    store.save_session(plain_session("one"))
    page = Page(html_report(store))
    assert page.text.strip().startswith("MLP on default")
    for absent in ("Sessions", "Models", "Benchmarks", "Without errors", "KernelDiff", "No guards"):
        assert absent not in page.text


def test_a_finding_of_several_sessions_is_told_once(store: ArtifactStore) -> None:
    for name in ("one", "two"):
        store.save_session(hostile_session(name))
    page = Page(html_report(store))
    findings = [attrs for attrs in page.tags("div") if attrs.get("class") == "finding error"]
    assert len(findings) == 1
    assert "in 2 sessions" in page.text


def test_only_the_sessions_that_are_asked_for(full_store: ArtifactStore) -> None:
    text = Page(html_report(full_store, ["s-plain"])).text
    assert EVIL not in text.replace(f"ValueError: {EVIL}", "").replace(f"{EVIL} · 2026", ""), "but for its benchmark"
    assert "3.00×" not in text
    assert "2.00×" in text
    with pytest.raises(NotFoundError, match="no session 'nope'"):
        html_report(full_store, ["nope"])


def test_nothing_captured_is_an_error(store: ArtifactStore) -> None:
    with pytest.raises(NotFoundError, match=r"nothing was captured in .* nothing to report"):
        html_report(store)


def test_benchmarks_alone_are_worth_a_report(store: ArtifactStore) -> None:
    save_benchmark(store, benchmark())
    text = Page(html_report(store)).text
    assert "2.00×" in text
    assert "nothing was checked" in text


def test_a_damaged_session_is_said_and_the_rest_is_shown(full_store: ArtifactStore) -> None:
    (artifact,) = full_store.artifacts("s-plain", "sessions")
    (full_store.folder / artifact.path).write_text("{}")
    text = Page(html_report(full_store)).text
    assert "1 stored file could not be read" in text
    assert "session s-plain: " in text
    assert "s-evil" in text
    with pytest.raises(StoreError, match="was changed"):
        html_report(full_store, ["s-plain"])


def test_when_no_session_can_be_read_one_line_says_so(full_store: ArtifactStore) -> None:
    for session in full_store.sessions():
        for artifact in full_store.artifacts(session.id, "sessions"):
            (full_store.folder / artifact.path).write_text("{}")
    for path in full_store.folder.glob("benchmarks/*"):
        path.unlink()
    with pytest.raises(StoreError, match="nothing to report that can be read"):
        html_report(full_store)


def test_older_sessions_come_without_pictures(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inductor_debug_jupyter.pipeline.reports.sections.ILLUSTRATED_SESSIONS", 1)
    for number in range(3):
        store.save_session(plain_session(f"s{number}", f"model {number}"))
    page = Page(html_report(store))
    assert len(page.tags("img")) == 1
    assert "graph of s2" in page.text
    assert "graph of s1" not in page.text
    assert "model 0" in page.text
    assert "The newest 1 are shown with pictures" in page.text


def test_generator_writes_where_it_is_told(full_store: ArtifactStore, tmp_path: Path) -> None:
    generator = HTMLReportGenerator(full_store.folder)
    inside = generator.generate()
    assert inside.parent == (full_store.folder / "reports").absolute()
    assert re.fullmatch(r"debug_report_\d{8}_\d{6}-[0-9a-f]{16}\.html", inside.name)
    assert inside in [full_store.folder.absolute() / a.path for a in full_store.artifacts("s-evil", "reports")]
    outside = generator.generate(tmp_path / "deep" / "page.html", sessions=["s-evil"])
    assert outside == tmp_path / "deep" / "page.html"
    assert outside.read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(StoreError, match="cannot write"):
        generator.generate(tmp_path)


def test_long_code_is_cut_and_says_so() -> None:
    shown = str(code("\n".join(f"x{n} = '<{n}>'" for n in range(200)), limit=10))
    assert "… and 190 more lines" in shown
    assert "&lt;9&gt;" in shown
    assert "&lt;10&gt;" not in shown
    assert "<b>" not in str(code("<b>", "no such language"))


def pixels(address: str) -> tuple[int, int, list[tuple[int, ...]]]:
    """Read the PNG back."""
    data = b64decode(address.removeprefix("data:image/png;base64,"))
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT") + 4
    raw = zlib.decompress(data[start : start + struct.unpack(">I", data[start - 8 : start - 4])[0]])
    rows = [raw[row * (width * 3 + 1) + 1 : (row + 1) * (width * 3 + 1)] for row in range(height)]
    return width, height, [tuple(row[at : at + 3]) for row in rows for at in range(0, width * 3, 3)]


def test_heatmap_colours_mean_something() -> None:
    heatmap = Heatmap(2, 2, (0.0, 1e-6, 1.0, None), 2, 2)
    width, height, drawn = pixels(heatmap_image(heatmap, passed=False))
    assert (width, height) == (2, 2)
    none, small, large, broken = drawn
    assert min(none) > 240
    assert small[0] > large[0] > large[2], "small is light, large is dark red"
    assert broken not in (none, small, large)
    _, _, calm = pixels(heatmap_image(heatmap, passed=True))
    assert calm[2][2] > calm[2][0], "rounding is not painted red"
    assert pixels(heatmap_image(Heatmap(1, 1, (0.0,), 1, 1), passed=True))[2] == [none]


def test_only_pictures_of_the_folder_are_taken_in(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts"
    folder.mkdir()
    image = b64decode(heatmap_image(Heatmap(1, 1, (1.0,), 1, 1), passed=True).partition(",")[2])
    for place in (folder / "a.png", tmp_path / "secret.png"):
        place.write_bytes(image)
    (folder / "fake.png").write_bytes(b"root:x:0:0")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    assert stored_image(str(folder / "a.png"), folder).startswith("data:image/png;base64,")
    for name in ("fake.png", "link.png", "../secret.png", "missing.png", "nul\0.png"):
        assert stored_image(f"{folder}/{name}", folder) == ""


def test_the_page_has_what_was_searched_planned_and_timed(store: ArtifactStore) -> None:
    record = plain_session("one")
    culprit = Culprit("aten.sin.default", "sin", "0/0 forward", module_path="net.3", error=0.5, allowed=1e-6)
    fallback = Fallback("erfinv", "the target has no erfinv", 1, 128)
    capture = replace(record.captures[0], phases=(Phase("Scheduler.codegen", 0.0, 2.5),))
    record = replace(
        record,
        captures=(capture,),
        localization=LocalizationRecord("Net", "chip", (culprit,), verdict="mismatch"),
        coverage=CoverageRecord("chip", (GraphCoverage("0/0", "forward", 1, (), fallbacks=(fallback,)),)),
        memory=(MemoryRecord("0/0", "forward", 4096, "sin", (4096,), ()),),
        environment=EnvironmentRecord(python="CPython 3.11", settings={"torch.x": EVIL}),
    )
    store.save_session(record)
    path = store.write("repros", "repro.py", "print('smallest script')", "one")
    store.save_session(replace(record, repros=(str(path),)))
    text = Page(html_report(store)).text
    for told in ("sin", "net.3", "the target has no erfinv", "peak 4 KiB", "generating code: 2.5 s", "CPython 3.11"):
        assert told in text
    assert "smallest script" in text
    assert EVIL in text
    bare = Page(html_report(store_of(store, plain_session("two")))).text
    for title in ("Where the error comes in", "Memory", "Environment", "Time to compile"):
        assert title in text
        assert title not in bare


def store_of(store: ArtifactStore, record: SessionRecord) -> ArtifactStore:
    other = ArtifactStore(store.folder.with_name("other"))
    other.save_session(record)
    return other


def test_a_cell_that_ran_again_is_not_added_up(store: ArtifactStore) -> None:
    for number in range(5):
        store.save_session(hostile_session(f"run-{number}"))
    assert "Findings2✗ 1 error" in Page(html_report(store)).text


@pytest.mark.parametrize(
    "evil", [EVIL, EVIL_CLOSER, "a\0b", "\u202egnp.exe", "\x1b[31mred\x1b]0;title\x07", "x" * 1_000_000, "\ud800"]
)
def test_a_comparison_shows_hostile_names_as_text(evil: str) -> None:
    line = SourceLine(evil, 3, evil, evil, evil)
    before = hostile_session()
    after = replace(
        before,
        id=evil,
        name=evil,
        target=evil,
        graph_breaks=(GraphBreak(evil, evil, line),),
        guards=(Guard(evil, evil, evil, (f"x == {evil}",), line),),
        findings=(Violation(evil, "error", evil, ()),),
        environment=EnvironmentRecord(python=evil, settings={evil: evil}),
    )
    comparison = compare_runs(before, after)
    results = check(comparison, read_gates("any"))
    assert results[0].failures
    html = comparison_page(comparison, (before, after), results)
    page = Page(html)
    assert page.wrong == []
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "img"}), "the graphs are the same"
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    ElementTree.fromstring(junit(comparison, results))
    json.loads(json.dumps(sarif(comparison, results)))
    shown = str(comparison)
    assert shown.replace("\n", "").isprintable()
    assert len(shown) < 20_000
    assert len(html) < 100_000
