"""The command line ``inductor-debug``: arguments go in, text or JSON and an exit code come out.

- ``main``: reads the command and runs it; the only place that prints errors and chooses exit codes;
- ``command``: what a subcommand is, and options that several have; ``terminal``: tables, JSON, colours; ``factory``:
  the model that a subcommand is given as ``module:function``;
- one module a subcommand: analyze, bisect, bug_report, clean, compare, config, conformance, diff, docs, doctor,
  explain, history, list_sessions, minify, quickstart and tour (with ``notebook_runner``), report, schema, show.
"""
