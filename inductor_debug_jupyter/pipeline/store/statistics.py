"""Counts of what a session captured: ops, dtypes and nodes of every graph, bytes of its inputs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from inductor_debug_jupyter.pipeline.records import GraphRecord, SessionRecord


def session_statistics(record: SessionRecord) -> dict[str, Any]:
    """Count for every graph of every capture; plain data."""
    return {
        "session": record.id,
        "captures": [
            {
                "compile_id": capture.compile_id,
                "graphs": {stage: graph_statistics(graph) for stage, graph in capture.graphs.items()},
                "kernels": len(capture.kernels),
                "seconds": capture.seconds,
            }
            for capture in record.captures
        ],
    }


def graph_statistics(graph: GraphRecord) -> dict[str, Any]:
    """Count for one graph; ``inputs.bytes`` is None when an input has a symbolic size."""
    inputs = [spec for node in graph.nodes if node.op == "placeholder" for spec in node.outputs]
    sizes = [spec.nbytes for spec in inputs]
    known = [size for size in sizes if size is not None]
    return {
        "nodes": len(graph.nodes),
        "calls": len(graph.calls),
        "ops": dict(Counter(node.target for node in graph.calls).most_common()),
        "dtypes": dict(Counter(spec.dtype for node in graph.calls for spec in node.outputs).most_common()),
        "inputs": {"tensors": len(inputs), "bytes": sum(known) if len(known) == len(sizes) else None},
    }


def statistics_json(record: SessionRecord) -> str:
    """Write the statistics as indented JSON."""
    return json.dumps(session_statistics(record), indent=1, ensure_ascii=False) + "\n"
