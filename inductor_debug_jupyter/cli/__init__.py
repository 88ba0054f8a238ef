"""The command line ``inductor-debug``: arguments go in, text or JSON and an exit code come out.

- ``main``: reads the command and runs it; the only place that prints errors and chooses exit codes;
- ``command``: what a subcommand is, and options that several have; ``terminal``: tables, JSON, colours;
- one module a subcommand: analyze, bisect, clean, config, conformance, diff, doctor,
  list_sessions, quickstart (with ``notebook_runner``), report, schema, show.
"""
