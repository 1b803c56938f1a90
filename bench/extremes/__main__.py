"""`python -m extremes polls|topics|backlog`."""

import sys

from extremes.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
