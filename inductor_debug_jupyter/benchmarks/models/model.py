"""What a benchmark model is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.errors import UsageError

SEED = 0


@dataclass(frozen=True)
class Built:
    """A model, ready to be called with ``inputs`` (positional)."""

    module: Any
    inputs: tuple[Any, ...]

    @property
    def parameters(self) -> int:
        """How many numbers the model has learnt."""
        return sum(parameter.numel() for parameter in self.module.parameters())


@dataclass(frozen=True)
class BenchmarkModel:
    """One entry of the list.

    Args:
        name: what ``--model`` calls it.
        description: one line for the list and the report.
        build: makes it; ``build(small=True)`` makes one of the same architecture that compiles in seconds.
    """

    name: str
    description: str
    build: Callable[[bool], Built]


def transformers() -> Any:
    """The transformers library.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import transformers as library  # the [benchmarks] extra
    except ImportError as error:
        raise UsageError(
            f"the benchmark models need the transformers library ({error}); "
            "install it with: pip install 'inductor-debug-jupyter[benchmarks]'"
        ) from None
    library.logging.set_verbosity_error()  # it is said at length that optional CUDA kernels are missing
    return library
