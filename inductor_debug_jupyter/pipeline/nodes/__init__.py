"""One node of a captured graph in the user's hands: its inputs, its output, and a callable of just that op or kernel.

``matching`` finds the captured node, and finds it again when the kept call is traced once more; ``reexecution`` runs
the call up to it, with ``stepping`` for the reference, ``parts`` for any candidate and ``kernels`` for Inductor;
``values`` is what comes out, ``handle`` what a user holds, ``binding`` how it gets into a namespace. ``traces`` and
``checkpoints`` are what is kept for the next question, so that the call is not traced, nor run from its beginning.
"""

from inductor_debug_jupyter.pipeline.nodes.asking import node_handle
from inductor_debug_jupyter.pipeline.nodes.checkpoints import BUDGET
from inductor_debug_jupyter.pipeline.nodes.handle import NodeHandle
from inductor_debug_jupyter.pipeline.nodes.traces import Traces

__all__ = ["BUDGET", "NodeHandle", "Traces", "node_handle"]
