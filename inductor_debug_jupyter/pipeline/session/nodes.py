"""One node of what a cell ran, in the user's hands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inductor_debug_jupyter.pipeline.nodes import BUDGET, NodeHandle, TracedCalls, node_handle
from inductor_debug_jupyter.pipeline.session.life import SessionLife

if TYPE_CHECKING:
    import torch


class Nodes(SessionLife):
    """A session's nodes."""

    checkpoint_budget: int = BUDGET
    """The most bytes kept so that the next question about a node is answered sooner."""
    _traces: TracedCalls | None = None

    @property
    def checkpoint_bytes(self) -> int:
        """How many of them there are just now."""
        return 0 if self._traces is None else self._traces.checkpoints.nbytes

    def node(
        self,
        name: str,
        stage: str = "",
        compile_id: str = "",
        *,
        candidate: Any = None,
        gradients: Sequence[torch.Tensor] | None = None,
    ) -> NodeHandle:
        """A node by its name in a captured graph: ``.inputs()``, ``.run()``, ``.as_function()``, ``.into()``.

        The first call of its model runs again up to the node, on copies, with the model as it is now. For the reference
        each op runs as in eager mode. A function that is no module runs as it is: what it writes elsewhere is written.
        The next question about the same compile goes on from the nearest checkpoint, as long as the model is the same;
        :attr:`checkpoint_budget` says how much memory that may take.

        Args:
            name: as the graph calls it: ``addmm_3``.
            stage: the graph; ``forward``, then ``backward`` and ``dynamo`` are looked through without it. A node of
                ``joint`` or ``post_grad`` is the forward's or backward's of that name.
            compile_id: the compile; the first that has such a node without it.
            candidate: a backend or adapter whose values are wanted: of ``"inductor"`` the kernel that the node went
                into, with its own inputs and outputs; of any other the node, in a graph whose every value is an output.
            gradients: what the backward starts from, one for each output of the model that requires one. Without
                them it is 1 for an output that is one number, and fixed random weights for any other: what your own
                loss gave was not kept.

        Raises:
            NotFoundError: no captured graph has such a node.
            UsageError: there is no such stage or candidate.
        """
        self._traces = self._traces or TracedCalls()
        self._traces.checkpoints.limit(self.checkpoint_budget)
        return node_handle(
            self.record.captures,
            self._kept_calls,
            name,
            stage,
            compile_id,
            candidate=candidate,
            gradients=gradients,
            traces=self._traces,
        )
