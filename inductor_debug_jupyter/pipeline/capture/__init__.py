"""torch.compile → records: a running compile goes in, one :class:`CompileCapture` for each compile id comes out.

- ``watch``: opens and closes a capture, and sends what the user runs through the compiler meanwhile;
- ``recorder``: listens to torch's hooks and keeps the records; ``compile_in_progress``: one compile until it is frozen;
  ``on_demand``: Inductor's part of it, made later;
- ``graphs``, ``graph_breaks``, ``structured_trace``: torch's graphs and trace log → records, and the line of progress;
- ``sources``: the user's line and notebook cell behind a stack trace;
- ``calls``, ``kept_calls``: the user's calls with copies of their inputs and the modes around them, to be run again;
- ``called_functions``: which compiled functions were called, with inputs to edit, for "would this recompile?";
- ``threads``: which threads a capture follows.
"""

from inductor_debug_jupyter.pipeline.capture.recorder import Recorder
from inductor_debug_jupyter.pipeline.capture.watch import CaptureWatch

__all__ = ["CaptureWatch", "Recorder"]
