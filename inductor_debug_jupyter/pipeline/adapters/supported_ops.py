"""The rule of an adapter's ``get_supported_ops()``: only these ops are allowed.

Views are always allowed, because they move no data. A name allows the ops that it is lowered to, and the ops that are
lowered to it: ``linear`` allows ``addmm``, and ``mm`` where there is no bias.
"""

from __future__ import annotations

from collections.abc import Iterable

from inductor_debug_jupyter.pipeline.devices import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.known_ops import check_ops
from inductor_debug_jupyter.pipeline.devices.ops import LOWERED, VIEWS, bare_name
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord

_ALSO: dict[str, tuple[str, ...]] = {
    "linear": ("addmm", "mm"),
    "matmul": ("mm", "bmm", "mv", "dot"),
    "scaled_dot_product_attention": (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
}
"""Names that stand for several ops, beside :data:`LOWERED`."""


class SupportedOpsConstraint(Constraint):
    """The only ops that the target has, by any of their names."""

    rule_id = "op.not_supported"

    def __init__(self, supported_ops: Iterable[str]) -> None:
        self.supported_ops = tuple(sorted(set(supported_ops)))
        check_ops(self.supported_ops, "get_supported_ops()")
        self._allowed = set(VIEWS)
        for bare in map(bare_name, self.supported_ops):
            self._allowed |= {bare, *LOWERED.get(bare, ()), *_ALSO.get(bare, ())}
            self._allowed |= {lowered for lowered, names in LOWERED.items() if bare in names}

    def check_node(self, node: NodeRecord, graph: GraphRecord) -> Problem | None:
        """The problem of a node whose op is not on the list."""
        bare = bare_name(node.target)
        if bare in self._allowed:
            return None
        return Problem(
            node.name,
            f"the target has no {bare}",
            observed=node.target,
            allowed=", ".join(self.supported_ops) or "no op at all",
            explanation=f"{bare} is not on the target's list of ops that it has.",
            hints=(f"replace {bare} by ops that the target has, or keep this part on the CPU",),
            evidence=f"bare(op) == {bare!r}",
        )
