"""A kept call, run again without a trace. Every room that runs a model of the user's does it by this one.

``again`` sets autocast, grad mode and random numbers as at the call, hides instruments and mutes prints. ``reachable``
walks from a callable to every tensor that a run can read or write, and to the ``holders`` of these; ``copies`` clones
them, and puts the user's own back. ``running`` calls a copy for a capture, and has the gradients that a backward starts
from; ``time_limit`` ends a run that does not come back. ``capture_run`` is the one way to capture a run into a record.
"""
