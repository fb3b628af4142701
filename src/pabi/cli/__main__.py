"""`python -m pabi.cli`."""

import sys

from pabi.cli import main

sys.exit(main())
