"""What the package costs on your machine: ``python -m inductor_debug_jupyter.benchmarks models --all``.

``suites`` has one module a subcommand: ``models`` and ``capture``. ``models`` has the models that are measured,
``model_trial`` times one on every backend; what it finds is stored in the artifact folder, where ``inductor-debug
report`` reads it. ``contenders`` are the tools beside our capture; ``children`` starts one of them in a fresh process,
``child`` is that process. ``command_line`` and ``printing`` serve all, and the proofs of a checkout (``python -m
tests.proofs``).
"""
