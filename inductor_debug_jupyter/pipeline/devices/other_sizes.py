"""The sizes of later calls: a graph that is open in some was compiled for one call, and called with others.

The rules look at a graph with the sizes of its first call. Of the other combinations, only those can change what they
find in which a size differs that a problem depends on; for limits, which only large sizes are over, the largest value
of each is tried as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from inductor_debug_jupyter.pipeline.records import CompileCapture

_MOST = 64


def with_other_sizes(capture: CompileCapture, texts: Iterable[str]) -> Iterator[CompileCapture]:
    """The capture with the sizes of other calls; ``texts`` are those of the problems found with its own."""
    first = {name: value for graph in capture.graphs.values() for name, value in graph.hints.items()}
    others = [each for each in capture.sizes if any(first.get(name) != value for name, value in each.items())]
    if not others:
        return
    named = {name for text in texts for name in re.findall(r"[A-Za-z_]\w*", text)} & first.keys()
    largest = {name: max(each.get(name, value) for each in (first, *others)) for name, value in first.items()}
    tried = {tuple({name: each[name] for name in named if name in each}.items()): None for each in others}
    if len(tried) > _MOST:
        raise ValueError(f"it was called with {len(tried)} combinations of sizes, too many to check each")
    combinations = ({**first, **sizes} for sizes in [*map(dict, tried), largest])
    yield from (_with_sizes(capture, hints) for hints in combinations if hints != first)


def _with_sizes(capture: CompileCapture, hints: Mapping[str, int]) -> CompileCapture:
    graphs = {
        stage: replace(graph, hints={name: hints[name] for name in graph.hints})
        for stage, graph in capture.graphs.items()
    }
    return replace(capture, graphs=graphs, eager=None)
