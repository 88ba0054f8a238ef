"""A captured graph → one standalone script that needs torch and nothing else."""

from inductor_debug_jupyter.pipeline.repro.script import violation_script

__all__ = ["violation_script"]
