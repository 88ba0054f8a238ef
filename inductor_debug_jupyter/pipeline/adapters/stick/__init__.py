"""The stick simulator: a device that really computes, with faults that can be switched on by name.

Tensors are copied into a padded layout of 128-byte sticks and back; between kernels they stay there, and memory that no
kernel wrote is poisoned. Each kernel obeys a JSON spec of the ranges that it reads and writes. The faults let tests
prove the rest of the tool against a device that is wrong in known ways::

    import torch
    from inductor_debug_jupyter import StickAdapter

    x = torch.arange(65, dtype=torch.float16)
    device = StickAdapter(faults=["copy-first-stick"])
    copy = torch.compile(torch.clone, backend=device.as_backend(fallback=False))(x)
    copy[63], copy[64]  # 63, and nan: the second stick was never written

- :mod:`memory`: layout, dtypes and buffers; :mod:`kernels`: the specs that kernels obey, and what they compute;
- :mod:`program`: one graph on the device; :mod:`faults`: the faults; :mod:`adapter`: the adapter, and what it refuses.
"""

from inductor_debug_jupyter.pipeline.adapters.stick.adapter import StickAdapter, stick128
from inductor_debug_jupyter.pipeline.adapters.stick.faults import DEFAULT_OPS as FAULTS
from inductor_debug_jupyter.pipeline.adapters.stick.faults import Fault, parse_fault
from inductor_debug_jupyter.pipeline.errors import RefusedError

__all__ = ["FAULTS", "Fault", "RefusedError", "StickAdapter", "parse_fault", "stick128"]
