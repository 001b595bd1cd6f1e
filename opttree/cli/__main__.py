"""``python -m opttree.cli``."""

import sys

from opttree.cli.main import main

sys.exit(main())
