"""Reports: an artifact folder with sessions and benchmarks in, one HTML page or JSON out.

- ``collect``: reads the folder. ``generator``: writes the report as a file.
- ``json_report``: plain data. ``html_report``: the page, from ``sections`` (what each part shows), ``images``
  (pictures as ``data:`` addresses) and ``templates/``.
"""

from inductor_debug_jupyter.pipeline.reports.collect import ReportData, collect
from inductor_debug_jupyter.pipeline.reports.generator import HTMLReportGenerator, write_report
from inductor_debug_jupyter.pipeline.reports.html_report import html_report
from inductor_debug_jupyter.pipeline.reports.json_report import json_report

__all__ = ["HTMLReportGenerator", "ReportData", "collect", "html_report", "json_report", "write_report"]
