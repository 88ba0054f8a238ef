"""The same graph elsewhere: plain ``dot`` of every node, and Model Explorer in the same browser.

Model Explorer is installed into a virtualenv of its own that is thrown away; its server runs already when the clock
starts. It is given the nodes with their module paths as namespaces, and counts until its canvas is there and it no
longer says that it is processing the graph. It draws with WebGL, here in software.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from inductor_debug_jupyter.benchmarks.printing import error_line
from inductor_debug_jupyter.pipeline.records import GraphRecord
from inductor_debug_jupyter.pipeline.views.labels import op_of
from tests.proofs.lab import free_port
from tests.proofs.panel_page import chromium

PACKAGE = "ai-edge-model-explorer"
_SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")
_READY = "document.querySelector('webgl-renderer canvas') && !document.body.innerText.includes('Processing graph')"


def plain_dot(graph: GraphRecord, seconds: float) -> float | str:
    """Seconds that ``dot -Tsvg`` takes for every node and edge, or why there is no figure."""
    if (dot := shutil.which("dot")) is None:
        return "no dot here"
    number = {node.name: at for at, node in enumerate(graph.nodes)}
    lines = ["digraph {", "node [shape=box];"]
    lines += [
        f'n{at} [label="{op_of(node)[:40]}"];' for at, node in enumerate(graph.nodes) if op_of(node).isidentifier()
    ]
    lines += [f"n{number[name]} -> n{number[node.name]};" for node in graph.nodes for name in node.inputs]
    text = "\n".join([*lines, "}"])
    start = time.perf_counter()
    try:
        done = subprocess.run([dot, "-Tsvg"], input=text.encode(), capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"gave up after {seconds:g} s"
    taken = time.perf_counter() - start
    return taken if done.returncode == 0 else f"failed: exit code {done.returncode}"


class ModelExplorer:
    """Model Explorer in a folder of its own; ``why_not`` says why it cannot be measured."""

    def __init__(self, folder: Path, executable: str) -> None:
        self._folder, self._chromium = folder, executable
        self.why_not = self._install()

    def _install(self) -> str:
        venv = self._folder / "model-explorer"
        try:
            for command in (
                [sys.executable, "-m", "venv", str(venv)],
                [str(venv / "bin" / "pip"), "install", "--quiet", PACKAGE],
            ):
                subprocess.run(command, capture_output=True, timeout=300, check=True)
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip().splitlines()
            return f"not installed: {said[-1] if said else error}"[:100]
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"not installed: {error_line(error)}"[:100]
        return ""

    def seconds(self, graph: GraphRecord, limit: float) -> float | str:
        """From opening its page to the graph on show, or why there is no figure."""
        if self.why_not:
            return self.why_not
        path = self._folder / "graph.json"
        path.write_text(json.dumps({"label": "graph", "graphs": [{"id": graph.stage, "nodes": _nodes(graph)}]}))
        try:
            with self._server() as address, chromium(self._chromium, *_SOFTWARE_GL) as browser:
                page = browser.new_page(viewport={"width": 1400, "height": 1000})
                data = urllib.parse.quote(json.dumps({"models": [{"url": str(path)}]}))
                start = time.perf_counter()
                page.goto(f"{address}/?data={data}", wait_until="commit")
                page.wait_for_function(f"() => {_READY}", timeout=limit * 1000)
                return time.perf_counter() - start
        except Exception as error:  # a peer that cannot be driven is a cell of the table
            timed_out = "Timeout" in type(error).__name__
            return f"gave up after {limit:g} s" if timed_out else f"not driven: {error_line(error)}"[:100]

    @contextmanager
    def _server(self) -> Iterator[str]:
        port = free_port()
        address = f"http://127.0.0.1:{port}"
        command = [str(self._folder / "model-explorer" / "bin" / "model-explorer"), "--host", "127.0.0.1"]
        process = subprocess.Popen(
            [*command, "--port", str(port), "--no_open_in_browser"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            for _ in range(150):
                if _answers(address):
                    break
                time.sleep(0.2)
            yield address
        finally:
            process.terminate()
            process.wait(15)


def _nodes(graph: GraphRecord) -> list[dict[str, object]]:
    return [
        {
            "id": node.name,
            "label": op_of(node),
            "namespace": node.module_path.replace(".", "/"),
            "incomingEdges": [
                {"sourceNodeId": name, "sourceNodeOutputId": "0", "targetNodeInputId": str(at)}
                for at, name in enumerate(node.inputs)
            ],
        }
        for node in graph.nodes
    ]


def _letters(text: str) -> str:
    return "".join(char for char in text[:40] if char.isalnum() or char == "_")


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
