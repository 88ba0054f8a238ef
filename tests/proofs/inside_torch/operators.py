"""PyTorch's own operator database: every op with sample inputs, as torch's tests use them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo.config as dynamo_config

from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.torch_compat.patches import patched

_SEED = 0


@dataclass(frozen=True, slots=True)
class Operator:
    """One op of the database."""

    name: str
    call: Callable[..., Any]
    _info: Any

    def samples(self, limit: int | None = None) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Arguments and keyword arguments of each CPU float32 sample, or of the first few; alike every time."""
        torch.manual_seed(_SEED)
        random.seed(_SEED)
        made = self._info.sample_inputs("cpu", torch.float32, requires_grad=False)
        for sample in itertools.islice(made, limit):
            yield (sample.input, *sample.args), dict(sample.kwargs)


@contextmanager
def not_seeding_themselves() -> Iterator[None]:
    """Random ops of the database seed torch's generator on each call, at which Dynamo gives up: the caller seeds."""
    from torch.testing._internal import common_methods_invocations

    def wrap(_: Any) -> Callable[..., Any]:
        return _called

    with patched(common_methods_invocations, "wrapper_set_seed", wrap, "op_db"):
        yield


@contextmanager
def values_may_decide_sizes() -> Iterator[None]:
    """Dynamo also traces ops whose result has as many elements as the values say, and numbers read from tensors."""
    with dynamo_config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


def _called(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return op(*args, **kwargs)


def operators() -> list[Operator]:
    """Every op of the database that takes float32 on the CPU.

    Raises:
        UsageError: what the database needs is not installed.
    """
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as error:
        raise UsageError(
            f"torch's operator database needs a package ({error}); install it with: pip install expecttest"
        ) from None
    database: list[Any] = op_db
    return [
        Operator(info.formatted_name, info.op, info)
        for info in database
        if torch.float32 in info.supported_dtypes("cpu")
    ]
