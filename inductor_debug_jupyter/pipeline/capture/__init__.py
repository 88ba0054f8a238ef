"""torch.compile → records.

:class:`~inductor_debug_jupyter.pipeline.capture.recorder.Recorder` listens to the compiler's hooks and keeps one
:class:`~inductor_debug_jupyter.pipeline.records.CompileCapture` for each compile id;
:class:`~inductor_debug_jupyter.pipeline.capture.watch.CaptureWatch` makes sure that what the user runs really passes
the compiler while a capture is open, and puts everything back when it closes.
"""

from inductor_debug_jupyter.pipeline.capture.recorder import Recorder
from inductor_debug_jupyter.pipeline.capture.watch import CaptureWatch

__all__ = ["CaptureWatch", "Recorder"]
