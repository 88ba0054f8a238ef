"""The headless pipeline: everything the notebook shows, without a notebook."""

import logging

from inductor_debug_jupyter.pipeline.harmless import harmless_record

for _name in ("inductor_debug_jupyter", "inductor_debug_jupyter.transfers"):
    logging.getLogger(_name).addFilter(harmless_record)  # every log line of ours goes through one of these two
