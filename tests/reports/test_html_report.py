"""The page: whole, self-contained, and deaf to what names say."""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.errors import NotFoundError, StoreError
from inductor_debug_jupyter.pipeline.records import Heatmap
from inductor_debug_jupyter.pipeline.reports import HTMLReportGenerator, html_report
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
        if "style" not in self.open:
            self.text += data

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for tag, attrs in self.elements if tag == name]


def test_transfers_and_kernel_specs_are_in_the_page(full_store: ArtifactStore) -> None:
    text = Page(html_report(full_store)).text
    assert "1 transfer to the device (256 B), 1 kernel" in text
    assert f"copy_to_device: shape=[65] dtype={EVIL} device_layout=[2, 64]" in text


def test_hostile_names_stay_text(full_store: ArtifactStore) -> None:
    html = html_report(full_store)
    page = Page(html)
    assert (page.wrong, page.open) == ([], []), "a name closed or opened an element"
    assert page.tags("script") == []
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
    assert "url(" not in html
    assert "@import" not in html
    (policy,) = [attrs["content"] for attrs in page.tags("meta") if "http-equiv" in attrs]
    assert str(policy).startswith("default-src 'none'; img-src data:")
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
    store.save_session(plain_session("one"))
    text = Page(html_report(store)).text
    assert "KernelDiff–nothing was compared" in text
    assert "Without errors100%1 of 1 checked session" in text
    assert "No benchmark was run" in text
    assert "No guards were recorded" in text
    store.save_session(hostile_session())
    text = Page(html_report(store)).text
    assert "KernelDiff0%0 of 1 comparison" in text
    assert "Without errors50%1 of 2 checked sessions" in text


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
