"""The statistics of a session as a file: counts of every graph, timings and cache outcomes of every compile."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from inductor_debug_jupyter.pipeline.records import SessionRecord


def session_statistics(record: SessionRecord) -> dict[str, Any]:
    """Count for every graph of every capture; plain data."""
    return {
        "session": record.id,
        "captures": [
            {
                "compile_id": capture.compile_id,
                "graphs": {stage: asdict(graph.statistics) for stage, graph in capture.graphs.items()},
                "kernels": len(capture.kernels),
                "seconds": capture.seconds,
                "caches": capture.caches,
            }
            for capture in record.captures
        ],
    }


def statistics_json(record: SessionRecord) -> str:
    """Write the statistics as indented JSON."""
    return json.dumps(session_statistics(record), indent=1, ensure_ascii=False) + "\n"
