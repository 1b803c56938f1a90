"""`python -m profiling`."""

import sys

from profiling.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
