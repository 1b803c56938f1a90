"""`python -m curves`."""

import sys

from curves.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
