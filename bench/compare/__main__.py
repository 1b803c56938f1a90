"""`python -m compare`."""

import sys

from compare.command import main

sys.exit(main(sys.argv[1:]))
