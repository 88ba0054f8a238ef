"""One measurement, alone in its process: ``python -m inductor_debug_jupyter.benchmarks.child JOB``.

torch is imported, and one small function compiled, before anything is counted: what torch loads on its first compile
would otherwise be in every figure and make every ratio look better. That function is Dynamo's frame 0; the measured
one is frame 1. The first call compiles the forward, ``backward()`` the backward.

Then Python's garbage collector runs once, for every contender alike. A full pass walks half a million objects (0.3 s,
some 5% of the compile) and comes when a quarter as many new ones have outlived the last: what the imports and the first
compile left pending would decide, by a hair, who has to pay for one more.
"""

from __future__ import annotations

import gc
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inductor_debug_jupyter.benchmarks.contenders import CONTENDERS
from inductor_debug_jupyter.benchmarks.contenders.capture import nodes
from inductor_debug_jupyter.benchmarks.job import LAPS, Answer, Job, answer_path, dump, read_job
from inductor_debug_jupyter.benchmarks.meter import Meter
from inductor_debug_jupyter.benchmarks.wording import error_line

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from inductor_debug_jupyter.benchmarks.models import Built
    from inductor_debug_jupyter.benchmarks.stopwatch import Stopwatch


def main(argument: str) -> int:
    """Do the job; whatever it raises is its answer."""
    job = read_job(argument)
    try:
        answer = _compile_costs(job) if job.kind == "compile" else _call_times(job)
    except Exception as error:  # also what a contender does to torch is its result
        answer = Answer(error=error_line(error))
    answer_path(job.folder).write_bytes(dump(answer))
    return int(bool(answer.error))


def _compile_costs(job: Job) -> Answer:
    contender = CONTENDERS[job.contender]
    if reason := contender.unavailable():
        return Answer(error=reason)
    import torch

    from inductor_debug_jupyter.benchmarks.models.encoder import encoder
    from inductor_debug_jupyter.pipeline.torch_compat.inductor_cache import graph_cache_hits
    from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed

    folder = Path(job.folder)
    built = encoder(job.layers, small=job.small)
    with ExitStack() as caches, ExitStack() as watch:
        caches.enter_context(caches_bypassed())
        _first_compile("eager" if job.small else "inductor")
        if contender.WARM_CACHES:
            caches.close()
        gc.collect()
        meter = Meter()
        own = watch.enter_context(_recorder_timed()) if job.timed else None
        watched = watch.enter_context(contender.watching(folder))
        _step(built, torch.compile(built.module))
        laps = [meter.lap()]
        watch.close()
        laps.append(meter.lap())
        contender.finish(folder, watched)
        laps.append(meter.lap())
    return Answer(
        torch_version=str(torch.__version__),
        laps=dict(zip(LAPS, laps, strict=True)),
        found=contender.found(folder),
        nodes=nodes(folder) if job.contender == "capture" else 0,
        cache_hits=graph_cache_hits(),
        own=own.seconds if own is not None else 0.0,
    )


def _recorder_timed() -> AbstractContextManager[Stopwatch]:
    """Imported here: a plain compile has nothing of ours in its process."""
    from inductor_debug_jupyter.benchmarks.stopwatch import recorder_timed

    return recorder_timed()


def _step(built: Built, compiled: Any) -> None:
    compiled(*built.inputs).sum().backward()


def _first_compile(backend: str) -> None:
    """Frame 0: makes torch load everything that a compile needs."""
    import torch

    linear = torch.nn.Linear(4, 4)

    def small(x: torch.Tensor) -> Any:
        return linear(x).relu().sum()

    torch.compile(small, backend=backend)(torch.randn(2, 4)).backward()


def _call_times(job: Job) -> Answer:
    import torch

    from inductor_debug_jupyter.benchmarks.call_times import call_times
    from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed

    with caches_bypassed():
        times = call_times(job.layers, Path(job.folder), calls=job.calls, small=job.small)
    return Answer(torch_version=str(torch.__version__), calls=times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
