"""The command line: one module a subcommand, registered in :mod:`~inductor_debug_jupyter.cli.main`."""
