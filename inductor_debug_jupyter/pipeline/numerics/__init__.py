"""What a device's arithmetic costs a model: which ops make the error, and which must stay precise.

In goes a model's call and an :class:`~inductor_debug_jupyter.pipeline.formats.arithmetic.Arithmetic`; out come records.
:mod:`error_budget` shares the deviation of a result out among the ops, :mod:`prescription` chooses the ops to keep in
float32, :mod:`tokens` compares logits as a language model's user would, :mod:`generation` a loop of calls step by step.
:mod:`arithmetic_run` runs a graph op by op in such an arithmetic.
"""

from inductor_debug_jupyter.pipeline.views import numerics as _words  # noqa: F401 - gives the records their texts
