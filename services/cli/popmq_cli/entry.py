"""The command `popmq`: all of it with the server's extra, `popmq run` alone without."""

import os
import sys
from importlib.util import find_spec

EXIT_INTERRUPTED = 130


def main() -> None:
    # Before gRPC is loaded: else it writes a line for each handshake that anybody lets fail.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if find_spec("click") is None:
        from popmq.app.launch import main as launch

        sys.exit(launch())
    try:
        from popmq_cli.main import main as command

        command()
    except KeyboardInterrupt:  # while it loads
        sys.exit(EXIT_INTERRUPTED)
