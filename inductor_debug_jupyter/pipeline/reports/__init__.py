"""Captured sessions and stored benchmarks as one page of HTML, or as JSON.

``collect`` reads the artifact folder; ``json_report`` makes plain data of it; ``html_report`` makes a page, from the
sections that ``sections`` prepares and the template under ``templates``.
"""

from inductor_debug_jupyter.pipeline.reports.collect import ReportData, collect
from inductor_debug_jupyter.pipeline.reports.generator import HTMLReportGenerator, write_report
from inductor_debug_jupyter.pipeline.reports.html_report import html_report
from inductor_debug_jupyter.pipeline.reports.json_report import json_report

__all__ = ["HTMLReportGenerator", "ReportData", "collect", "html_report", "json_report", "write_report"]
