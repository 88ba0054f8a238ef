"""Which stage between eager mode and the device brings an error in.

In: a model and its inputs. Out: a ``BisectRecord`` with one rung per stage, which ``views.bisect`` shows. ``ladder``
runs the model eagerly, traced, through AOTAutograd, with decompositions, with Inductor and on an adapter, and compares
each with eager.
"""

from inductor_debug_jupyter.pipeline.bisect.ladder import STEPS, LadderStep, bisect_stages, is_rung

__all__ = ["STEPS", "LadderStep", "bisect_stages", "is_rung"]
