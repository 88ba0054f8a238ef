"""Number formats of devices: rounding to them, computing as a device does that has them, and recognising them.

In goes an op with its inputs; out comes what a device of a given arithmetic makes of it (:mod:`arithmetic`), or the
arithmetic that explains what an unknown device made of it (:mod:`recognition`). :mod:`rounding` has the formats,
:mod:`designed_inputs` are inputs that tell what a model's own leave open, :mod:`places` names a model's ops.
"""
