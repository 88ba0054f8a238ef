"""One module a subcommand: ``models`` (speed of Inductor) and ``capture`` (cost of our capture beside its peers)."""
