"""The machine, the compiler and the torch of this process, with the settings that were changed."""

from __future__ import annotations

import logging
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config

from inductor_debug_jupyter.pipeline.errors import in_a_line
from inductor_debug_jupyter.pipeline.records.environment import EnvironmentRecord

_log = logging.getLogger("inductor_debug_jupyter")
_OWN = "inductor-debug-jupyter"
_PLACES = ("_DIR", "_PATH", "_HOME", "_FILE")
"""Endings of variables that say where files are, which changes nothing of what is compiled."""
_COMPILER_SECONDS = 10.0


def environment() -> EnvironmentRecord:
    """What this process runs on; a part that cannot be found out is empty, and the log says why."""
    return EnvironmentRecord(**_machine(), settings=_known(changed_settings, {}), backends=_known(_backends, {}))


@lru_cache(maxsize=1)
def _machine() -> dict[str, str]:
    """What does not change while the process lives."""
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": _known(platform.platform, ""),
        "cpu": _known(_cpu, ""),
        "compiler": _known(_compiler, ""),
        "torch_build": _known(_torch_build, ""),
    }


_Part = TypeVar("_Part")


def _known(find: Callable[[], _Part], otherwise: _Part) -> _Part:
    try:
        return find()
    except Exception as error:
        _log.info("%s of the environment is not known: %s", find.__name__.strip("_"), in_a_line(error))
        return otherwise


def _cpu() -> str:
    names = Path("/proc/cpuinfo")
    lines = names.read_text(errors="replace").splitlines() if names.is_file() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    cores = f"{os.cpu_count()} logical cores"
    return ", ".join(filter(None, [name or platform.machine(), cores, torch.backends.cpu.get_cpu_capability()]))


def _compiler() -> str:
    """The version line of the first compiler on Inductor's list that is installed."""
    candidates = inductor_config.cpp.cxx
    names = candidates if isinstance(candidates, tuple | list) else (candidates,)
    found = next((place for name in names if name and (place := shutil.which(name))), None)
    if found is None:
        return ""
    answer = subprocess.run(  # noqa: S603 - the compiler that torch is about to run
        [found, "--version"], capture_output=True, text=True, errors="replace", timeout=_COMPILER_SECONDS, check=False
    )
    return next(iter(answer.stdout.splitlines()), found)


def _torch_build() -> str:
    toolkits = [f"{name} {version}" for name in ("cuda", "hip", "xpu") if (version := getattr(torch.version, name, ""))]
    commit = str(torch.version.git_version)[:12]
    return ", ".join([str(torch.__version__), f"commit {commit}", *(toolkits or ["CPU only"])])


def changed_settings() -> dict[str, str]:
    """Dynamo's, AOTAutograd's and Inductor's settings that differ from the defaults, and torch's variables."""
    found: dict[str, str] = {}
    for config in (dynamo_config, functorch_config, inductor_config):
        for line in config.codegen_config().splitlines():
            name, _, value = line.partition(" = ")
            if value and not _is_default(config, name.removeprefix(f"{config.__name__}.")):
                found[name] = value
    if (precision := torch.get_float32_matmul_precision()) != "highest":
        found["float32_matmul_precision"] = precision
    if torch.are_deterministic_algorithms_enabled():
        found["deterministic_algorithms"] = "True"
    if (dtype := torch.get_default_dtype()) != torch.float32:
        found["default_dtype"] = str(dtype)
    variables = {name: text for name, text in os.environ.items() if name.startswith("TORCH")}
    return found | {name: text for name, text in sorted(variables.items()) if not name.endswith(_PLACES)}


def _is_default(config: Any, name: str) -> bool:
    """Whether a setting has its default value: a patch that ended leaves that value behind as if a user had set it.

    The default of a setting that Meta switches from afar (``justknob``) is True everywhere else.
    """
    entry = config._config[name]
    value = config.get_config_copy()[name]
    return bool(value == entry.default or (entry.justknob is not None and value is True))


@lru_cache(maxsize=1)
def _backends() -> dict[str, str]:
    """Backends of torch.compile that other packages register."""
    points = metadata.entry_points(group="torch_dynamo_backends")
    owners = {point.name: point.dist for point in points}
    return {
        name: f"{owner.name} {owner.version}"
        for name, owner in sorted(owners.items())
        if owner is not None and owner.name != _OWN
    }


def collected_environment() -> str:
    """What ``python -m torch.utils.collect_env`` prints; a sentence where it fails."""
    from torch.utils import collect_env

    try:
        text = str(collect_env.get_pretty_env_info())  # type: ignore[no-untyped-call]
    except Exception as error:  # it calls what the system may not have
        text = f"not collected: {type(error).__name__}: {error}"
    return f"torch.utils.collect_env, when this report was written:\n{text}"
