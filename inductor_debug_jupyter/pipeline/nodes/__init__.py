"""One node of a captured graph: its inputs, its output, and a callable of just that op or kernel.

In: the captures of a session, its kept calls, and a node's name. Out: a :class:`NodeHandle` (``handle``), which can put
its values into a namespace. ``matching`` finds the captured node, also in graphs that are traced anew. ``reexecution``
runs the kept call up to the node: with ``stepping`` for the reference, ``candidate_graph`` for any candidate,
``kernels`` for Inductor. ``values`` has the result. ``traced_calls`` keeps traced calls and ``checkpoints`` values of
their graphs, so that the next node needs neither a trace nor a run from the beginning.
"""

from inductor_debug_jupyter.pipeline.nodes.checkpoints import BUDGET
from inductor_debug_jupyter.pipeline.nodes.handle import NodeHandle, node_handle
from inductor_debug_jupyter.pipeline.nodes.traced_calls import TracedCalls

__all__ = ["BUDGET", "NodeHandle", "TracedCalls", "node_handle"]
