"""A kept call, run again without a trace.

``reachable`` walks from a callable to every tensor that a run can read or write, and to the ``holders`` of these;
``state`` copies them, and puts the user's own back; ``time_limit`` ends a run that does not come back.
"""
