"""Tests mirror the package; ``proofs`` is a program of its own: ``python -m tests.proofs``."""
