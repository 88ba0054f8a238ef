'''How to run on a device: a captured graph in, a function that runs on the device out.

``adapter`` is the interface that a vendor implements: what a device can do, and what a compile gave. ``mock`` and
``stick`` (a simulator) implement it; ``lookup`` finds one by name, and makes one of any ``torch.compile`` backend.
``device_log`` collects transfers and kernels. ``isolated`` runs an adapter in another process: ``graph_json`` writes
the graph, ``graph_server`` is the other side. ``conformance`` tests an adapter.

A vendor's adapter says what the device can do and compiles. This one computes matmuls in bfloat16, as many matrix
units do, and leaves the rest to the CPU::

    import operator

    import torch

    from inductor_debug_jupyter import AcceleratorAdapter, CompilationResult

    MATMULS = (torch.matmul, torch.mm, torch.bmm, operator.matmul, torch.nn.functional.linear)

    class Bfloat16Unit(torch.fx.Interpreter):
        """Runs a graph op by op; matmuls round their operands to bfloat16 first."""

        def call_function(self, target, args, kwargs):
            if target not in MATMULS:
                return super().call_function(target, args, kwargs)
            rounded = [a.bfloat16() if isinstance(a, torch.Tensor) else a for a in args]
            return target(*rounded, **kwargs).to(args[0].dtype)

    class ToyAdapter(AcceleratorAdapter):
        name = "toy"
        description = "matmuls in bfloat16, everything else on the CPU"
        compute_dtype = torch.bfloat16

        def get_supported_dtypes(self):
            return {torch.float32, torch.bfloat16, torch.int64, torch.bool}

        def get_supported_ops(self):
            return {"linear", "matmul", "relu", "gelu", "add", "mul", "layer_norm", "softmax"}

        def get_memory_limit(self):
            return 2 * 1024**3

        def compile(self, gm, inputs):
            specs = tuple(
                {"op": str(node.target), "compute": "bfloat16"}
                for node in gm.graph.nodes
                if node.target in MATMULS
            )
            return CompilationResult(success=True, run=Bfloat16Unit(gm).run, kernel_specs=specs)

    compiled = torch.compile(model, backend=ToyAdapter().as_backend(strict=True))
    with torch.no_grad():  # where gradients are wanted, the ops of the backward are checked as well
        out = compiled(x)

``ToyAdapter().capabilities()`` gathers its answers, ``.check(gm, inputs)`` lists what it would refuse of a graph, and
``.as_backend()`` is a backend that checks, compiles and runs. (``tests/adapters/test_own_adapter.py`` runs this text.)
``inductor-debug conformance my_pkg:ToyAdapter`` tests whether its answers are true.

``.as_backend(isolate=True, timeout=60)`` compiles and runs in a process of its own: a vendor's compiler that crashes
or hangs there becomes an error and a crash record here. Any ``torch.compile`` backend is an adapter without code:
``BackendAdapter("inductor")``, or ``IsolatedAdapter("openvino")``; the capabilities of its device are unknown.
:mod:`~inductor_debug_jupyter.pipeline.adapters.lookup` says how a package registers an adapter by name.
'''

from inductor_debug_jupyter.pipeline.adapters.adapter import (
    AcceleratorAdapter,
    AcceleratorCapabilities,
    CompilationResult,
    SupportedOpsConstraint,
    capture_graph,
)
from inductor_debug_jupyter.pipeline.adapters.isolated import IsolatedAdapter
from inductor_debug_jupyter.pipeline.adapters.lookup import BackendAdapter, find_adapter
from inductor_debug_jupyter.pipeline.adapters.mock import (
    IntegratedMockAdapter,
    MockAcceleratorAdapter,
    create_mock_backend,
)
from inductor_debug_jupyter.pipeline.adapters.stick import StickAdapter

__all__ = [
    "AcceleratorAdapter",
    "AcceleratorCapabilities",
    "BackendAdapter",
    "CompilationResult",
    "IntegratedMockAdapter",
    "IsolatedAdapter",
    "MockAcceleratorAdapter",
    "StickAdapter",
    "SupportedOpsConstraint",
    "capture_graph",
    "create_mock_backend",
    "find_adapter",
]
