"""Where a model's time goes.

- ``kernel_timing``: the kernels of a call timed in place, the call compiled and eager, the modules eager.
- ``roofs``: how fast this machine is at best.
- ``work``: operations and bytes of ops, read off a captured graph.
- ``timing``: all of it joined to what the session captured, as a record.
"""

from inductor_debug_jupyter.pipeline.profiling.timing import timing_of

__all__ = ["timing_of"]
