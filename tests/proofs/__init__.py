"""What proves the package: gates that need minutes or hours, each a subcommand of ``python -m tests.proofs``.

Run it in the root of a checkout. One module a suite (see ``__main__``), with what it measures:

- ``stages``, ``guards``, ``nodes``, ``fixits``, ``devices``: a capture and what is derived from it;
- ``ops``, ``simulator`` (with ``faulty_child``): the backends;
- ``localize`` (with ``localize_cases``, ``kernel_faults``), ``truth`` (with ``zoo``): faults must be found and blamed
  on the right line, healthy runs must not be blamed;
- ``faults`` (with ``fault_cases``, ``fault_plants``, ``fault_peers``): they are bisected and reduced to a script;
- ``panel`` (with ``panel_page``, ``panel_peers``, ``lab``): speed in a browser.

``partitioned``, ``synthetic`` and ``inside_torch`` serve several of them, and tests. ``test_*.py`` beside them run each
suite in small and show that it can fail.
"""
