"""``python -m inductor_debug_jupyter …`` is the command line ``inductor-debug …``."""

import sys

from inductor_debug_jupyter.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
