"""A kept call, run again without a trace. Whoever runs a model of the user's does it by this room.

``again`` is how: autocast, grad mode and random numbers of the call, with nobody watching or listening. ``reachable``
walks from a callable to every tensor that a run can read or write, and to the ``holders`` of these; ``copies`` clones
them, and puts the user's own back. ``running`` calls a copy for a capture, and has the gradients that a backward starts
from; ``time_limit`` ends a run that does not come back. ``capture_run`` is the one way to capture a run into a record.
"""
