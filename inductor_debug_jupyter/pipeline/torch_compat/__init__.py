"""The one door for private torch names: no module outside this package imports one.

Calls of a capture go in, plain facts and contexts come out. Opening the door with an untested torch warns once.

- hooks into the compiler: hooks (one a stage), patches, canaries (do the hooks still work?), versions, environment;
- compiling beside the user: regions, compile_cleanup, module_calls (plain calls, with classes_with_own_call),
  ahead_of_time (compiled artifacts), instruments, process_state, tracing_state, silence, stack_levels (of warnings);
- lowering and running graphs: lowering, suspended_lowering, replay, eager_memory, inductor_passes, aten_tracing, state
  (config and compile ids);
- reading graphs: graphs, aten_ops, op_names, op_interception, trees, inductor_ir;
- guards: guards (read, also sizes and breaks), guard_checks (evaluate), guard_failures (explain), guard_timing;
- Inductor's kernels: kernel_calls, kernel_arguments, kernel_times; arithmetic: stochastic.

A hook whose target is gone raises :class:`~inductor_debug_jupyter.pipeline.errors.HookError` when it is installed.
"""

from inductor_debug_jupyter.pipeline.torch_compat.versions import warn_if_untested

warn_if_untested()
