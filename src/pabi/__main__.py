"""`python -m pabi`."""

import sys

from pabi.cli import main

sys.exit(main())
