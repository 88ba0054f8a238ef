"""The function that a command is given as ``module:function``: it makes the model and the inputs to look at."""

from __future__ import annotations

from typing import Any

from inductor_debug_jupyter.pipeline.errors import InductorDebugError, UsageError


def model_of(name: str, command: str) -> tuple[Any, Any]:
    """What the function named ``module:function`` returns: a model and its inputs.

    Raises:
        UsageError: there is no such function, it fails, or it returns something else.
    """
    from inductor_debug_jupyter.pipeline.isolation import imported

    factory = imported(name, command)
    if not callable(factory):
        raise UsageError(f"{command}: {name} must be a function that returns (model, inputs), not {_kind(factory)}")
    made = _called(factory, name, command)
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise UsageError(f"{command}: {name}() must return (model, inputs); it returned {_kind(made)}")
    return made[0], made[1]


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"


def _called(found: Any, name: str, origin: str) -> Any:
    try:
        return found()
    except InductorDebugError:
        raise
    except Exception as error:  # the user's own code
        raise UsageError(f"{origin}: {name}() failed: {type(error).__name__}: {error}") from error
