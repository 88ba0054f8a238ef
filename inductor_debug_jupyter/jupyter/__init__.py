"""The notebook: magics, cell running, and the panels under a cell. Everything it shows comes from the pipeline."""
