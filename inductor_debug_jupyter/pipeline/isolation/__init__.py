"""Run foreign code in a fresh interpreter, with a time limit and a memory limit.

A vendor's compiler may die of a signal on an ordinary op, hang, or eat all memory. A :class:`Worker` is another Python
process that serves one handler, named by an import string. Questions and answers are JSON with tensors as safetensors
beside it; nothing is pickled, and nothing of the caller's process is inherited: no fork (it hangs once torch has used
its threads), no multiprocessing (it cannot import what a notebook defined).

Whatever ends the process is an answer too, a :class:`~inductor_debug_jupyter.pipeline.records.CrashRecord`: which
graph, which op if known, which signal, what it wrote last. The caller's process goes on.
"""

from inductor_debug_jupyter.pipeline.isolation.importing import import_path, imported
from inductor_debug_jupyter.pipeline.isolation.limits import DEFAULT_SECONDS, Limits
from inductor_debug_jupyter.pipeline.isolation.progress import running
from inductor_debug_jupyter.pipeline.isolation.worker import Answer, Worker

__all__ = ["DEFAULT_SECONDS", "Answer", "Limits", "Worker", "import_path", "imported", "running"]
