"""What can be measured: one module a subcommand."""
