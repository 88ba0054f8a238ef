"""The headless pipeline: everything the notebook shows, without a notebook. Imports go down only, in this order.

- What a user holds: ``session`` (DebugSession), ``quick_run`` (a first look without a cell).
- What is shown: ``reports`` (HTML, JSON, Markdown, bug report), ``drawing`` (graphs as SVG), ``views`` (records → dicts
  and text). ``backends``: ``mock_backend`` and its kin.
- Analyses over analyses: ``what_if``, ``comparing`` (two sessions), ``minify``.
- Analyses: ``bisect``, ``fixits``, ``guards``, ``nodes``, ``numerics`` (error budget), ``profiling`` (kernel times),
  on top of ``diff`` (KernelDiff and localization), which stands on ``rerun`` (a kept call, run again) and ``formats``
  (number formats).
- The device: ``adapters`` (code that runs there), ``devices`` (profiles, rules, coverage, memory).
- Capturing: ``capture``, ``torch_compat`` (private torch names), ``isolation`` (other processes), ``repro`` (scripts),
  ``store`` (artifact folder).
- The ground: ``records`` (what was captured and found), ``settings``, ``options``, ``documentation``, ``errors``,
  ``interrupts`` (Ctrl-C), ``reading`` (files of others), ``words`` (numbers and severities), ``harmless`` (text without
  escape sequences), ``observers``.
"""

import logging

from inductor_debug_jupyter.pipeline.harmless import harmless_record

for _name in ("inductor_debug_jupyter", "inductor_debug_jupyter.transfers"):
    logging.getLogger(_name).addFilter(harmless_record)  # every log line of ours goes through one of these two
