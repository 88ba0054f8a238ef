"""Which stage of the ladder from eager to the device brings an error in.

``bisect_stages(model, inputs)`` runs the model eagerly, traced, through AOTAutograd, with decompositions, with
Inductor and on an adapter, and compares each with eager; ``views.bisect`` shows the answer.
"""

from inductor_debug_jupyter.pipeline.bisect.ladder import STEPS, Step, bisect_stages, is_rung

__all__ = ["STEPS", "Step", "bisect_stages", "is_rung"]
