"""Reports: sessions and benchmarks in, one file out: an HTML page, JSON, Markdown, or a bug report.

- ``collect``: reads the folder. ``generator``: writes the report as a file.
- ``json_report``: plain data. ``markdown_report``: a text for an issue. ``html_report``: the page, from ``sections``
  (what each part shows), ``images`` (pictures as ``data:`` addresses) and ``templates/``, with ``offline_panel`` (the
  panel without Python) and ``panel_assets`` (its JavaScript and CSS).
- ``comparison_page``: two runs side by side. ``snapshot`` and ``comparison_snapshot``: static HTML in a saved notebook.
  ``bug_report``: a folder or zip.
"""

from inductor_debug_jupyter.pipeline.reports.collect import ReportData, collect
from inductor_debug_jupyter.pipeline.reports.generator import HTMLReportGenerator, write_report
from inductor_debug_jupyter.pipeline.reports.html_report import html_report
from inductor_debug_jupyter.pipeline.reports.json_report import json_report

__all__ = ["HTMLReportGenerator", "ReportData", "collect", "html_report", "json_report", "write_report"]
