"""Measure: ``python -m inductor_debug_jupyter.benchmarks models --all``, and what a capture costs: ``… capture``.

``models`` holds what is measured, one module a model; ``suites`` what is asked about it, one module a subcommand.
``contenders`` holds who is measured beside our capture. What ``models`` finds is stored in the artifact folder, where
``inductor-debug report`` reads it.
"""
