"""Run foreign code in a fresh interpreter, with a time limit and a memory limit.

A method name and its arguments go in; an :class:`Answer` comes out, or a ``CrashRecord`` when the process died of a
signal, hung or ran out of memory. Nothing is pickled or forked: a fork hangs once torch has used its threads.

- ``worker``: starts the process, sends requests, records how it ended; ``child``: the process that serves a handler;
- ``subreaper``: the process in between, which kills whatever the child started;
- ``wire``: messages over a socket (JSON and safetensors); ``values``: Python values and tensors ↔ messages;
- ``limits``: seconds and bytes; ``running_op``: the op that is running, readable after a crash;
- ``import_strings``: ``package.module:attribute``, by which the other process finds a handler;
- ``installed``: what packages register as entry points.
"""

from inductor_debug_jupyter.pipeline.isolation.import_strings import import_path, imported
from inductor_debug_jupyter.pipeline.isolation.limits import DEFAULT_SECONDS, Limits
from inductor_debug_jupyter.pipeline.isolation.running_op import running
from inductor_debug_jupyter.pipeline.isolation.worker import Answer, Worker

__all__ = ["DEFAULT_SECONDS", "Answer", "Limits", "Worker", "import_path", "imported", "running"]
