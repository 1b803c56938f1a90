"""`python -m scaling`."""

import sys

from scaling.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
