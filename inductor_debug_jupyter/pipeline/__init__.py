"""The headless pipeline: everything the notebook shows, without a notebook."""
