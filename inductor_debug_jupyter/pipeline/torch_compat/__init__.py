"""The one door for private torch names.

Nothing outside this package imports a private name of torch. Each module here holds one kind of access:

- :mod:`versions`: which torch this is, and whether it is one that the tests cover;
- :mod:`patches`: replace an attribute and put it back, whatever happens in between;
- :mod:`hooks`: watch the compiler, one hook a stage, listeners are told what it made;
- :mod:`regions`: run an already compiled function, or a plain module, in a cache region of its own;
- :mod:`calls`: see the calls of plain modules;
- :mod:`lowering`: take a Dynamo graph through AOTAutograd and Inductor without compiling any C++;
- :mod:`graphs`: read nodes, fake tensors and placeholders;
- :mod:`guards`: read what torch checks before it reuses a graph;
- :mod:`running`: what Dynamo knows while it calls a backend;
- :mod:`op_names`: every name by which torch knows an op;
- :mod:`passes`: what Inductor's passes and decompositions make of a graph;
- :mod:`stochastic`: run eager code with every rounding off at random;
- :mod:`targets`: names of what nodes call, for another process;
- :mod:`trees`: nested containers of tensors;
- :mod:`state`: ids, caches and switches of the compiler.

A hook whose target is gone raises :class:`~inductor_debug_jupyter.pipeline.errors.HookError` when it is installed; the
caller goes on without that part and says which part and why.

Opening the door with a torch that the tests do not cover is one warning a process: this file runs once, and first.
"""

from inductor_debug_jupyter.pipeline.torch_compat.versions import warn_if_untested

warn_if_untested()
