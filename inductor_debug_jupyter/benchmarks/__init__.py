"""Measure whole models on several backends: ``python -m inductor_debug_jupyter.benchmarks models --all``.

``models`` holds what is measured, one module a model; ``suites`` what is asked about it, one module a subcommand.
What a suite finds is stored in the artifact folder, where ``inductor-debug report`` reads it.
"""
