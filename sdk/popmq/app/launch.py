"""popmq run: the handlers of an app, until SIGTERM or Ctrl-C.

    popmq run shop.handlers:app       popmq run shop.handlers       popmq run handlers.py

Needs nothing but the SDK. A module that runs its app itself, as one that ends in
`asyncio.run(main())` does while it is imported, is run as it is.
"""

import argparse
import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from popmq.access import connect_settings as access
from popmq.access.contexts import CONTEXT_VARIABLE
from popmq.access.credentials import ACCESS_KEY_VARIABLE
from popmq.app.app import App
from popmq.app.lifecycle import LAUNCH, Launch
from popmq.app.run_options import FAILED, MISUSED, SUPERVISED, Misuse, RunOptions
from popmq.errors import PopMQClientError

CUT_SHORT: Final = 143
"""After a second SIGTERM or SIGINT."""
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
WORKERS_MAX: Final = 256
ENDPOINT_VARIABLE: Final = "POPMQ_ENDPOINT"
TLS_CA_VARIABLE: Final = "POPMQ_TLS_CA"
ENDPOINT_HELP: Final = (
    "The server, or several separated by ';'. https://HOST:PORT connects with TLS."
)
TLS_CA_HELP: Final = "Connect with TLS, and trust the certificates in this PEM file."
CONNECT_OPTIONS: Final = (
    ("--context", access.CONTEXT_HELP, "NAME", CONTEXT_VARIABLE),
    ("--access-key/--user", access.ACCESS_KEY_HELP, "NAME", ACCESS_KEY_VARIABLE),
    ("--secret-key-file", access.SECRET_KEY_FILE_HELP, "FILE", ""),
    ("--tls-ca", TLS_CA_HELP, "FILE", TLS_CA_VARIABLE),
    ("--tls-cert", access.TLS_CERT_HELP, "FILE", access.TLS_CERT_VARIABLE),
    ("--tls-key", access.TLS_KEY_HELP, "FILE", access.TLS_KEY_VARIABLE),
)
"""Words, help, what stands for the value, variable."""
WORKERS_HELP: Final = "Number of processes; one that fails is replaced."
RELOAD_HELP: Final = "Start again when a Python file in this directory changes."
LEVEL_HELP: Final = "Log this and what is more severe."


class NoApp(Misuse):
    """There is no such app."""


def run(options: RunOptions) -> int:
    """What the process is to end with. Raises `Misuse`."""
    from popmq.app import supervisor  # most need none

    options.connection()
    if options.reload:
        return supervisor.reloading(options)
    if options.workers > 1:
        return supervisor.several(options)
    return serve(options)


def serve(options: RunOptions) -> int:
    """In this process. Raises `Misuse`."""
    process = "[%(process)d] " if SUPERVISED in os.environ else ""
    logging.basicConfig(
        level=options.log_level.upper(),
        format=f"%(asctime)s %(levelname)s {process}%(name)s: %(message)s",
    )
    if SUPERVISED in os.environ:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    found = options.connection()
    launch = Launch(endpoint=found.endpoint, tls=found.tls, credentials=found.credentials)
    LAUNCH.set(launch)
    try:
        app = load(options.target)
        if app not in launch.ran:
            asyncio.run(app.run())
    except PopMQClientError as failed:
        print(f"popmq: {failed}", file=sys.stderr)
        return FAILED
    except asyncio.CancelledError:
        print("popmq: ended by a second signal, before its handlers did", file=sys.stderr)
        return CUT_SHORT
    return 0


def load(target: str) -> App:
    """The app of `module:name`, `module` or `file.py`; the current folder is searched first.
    Without a name it is the module's only one. Raises `NoApp`."""
    module, colon, name = target.partition(":")
    if not module or (colon and not name):
        raise NoApp(f"{target!r} is not MODULE:APP, e.g. shop.handlers:app")
    folder = os.getcwd()
    if module.endswith(".py"):
        path = Path(module).resolve()
        folder, module = str(path.parent), path.stem
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module}.".startswith(f"{missing.name}."):
            raise
        raise NoApp(f"there is no module {missing.name!r} here") from missing
    return _app_of(found, name)


def _app_of(module: Any, name: str) -> App:
    if name:
        app = getattr(module, name, None)
        if not isinstance(app, App):
            raise NoApp(f"{name!r} in {module.__name__} is no popmq.App")
    else:
        apps = {id(one): one for one in vars(module).values() if isinstance(one, App)}
        if len(apps) != 1:
            text = f"{module.__name__} has {len(apps)} of popmq.App"
            raise NoApp(f"{text}; say which: {module.__name__}:app")
        (app,) = apps.values()
    if not app.handles:
        raise NoApp(f"the app in {module.__name__} has no handler: @app.handler(topic, group)")
    return app


def _end_with_parent() -> None:
    """A supervisor that is killed leaves nobody behind."""
    while os.read(sys.stdin.fileno(), 1):  # not `sys.stdin`, whose lock would outlive the process
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="popmq", description="Run the handlers of an app.")
    run = made.add_subparsers(dest="command", required=True).add_parser(
        "run", help="Run the handlers of an app.", description="Run the handlers of an app."
    )
    run.add_argument(
        "target",
        metavar="MODULE:APP",
        help="Where the app is: shop.handlers:app; shop.handlers, if it has one app; handlers.py.",
    )
    run.add_argument(
        "--endpoint",
        default=os.environ.get(ENDPOINT_VARIABLE, ""),
        metavar="HOST:PORT",
        help=f"{ENDPOINT_HELP}  [env var: {ENDPOINT_VARIABLE}; default: as the app says]",
    )
    run.add_argument("--tls", action="store_true", help="Connect with TLS.")
    for words, help_text, metavar, variable in CONNECT_OPTIONS:
        run.add_argument(
            *words.split("/"),
            default=os.environ.get(variable, "") if variable else "",
            metavar=metavar,
            help=f"{help_text}  [env var: {variable}]" if variable else help_text,
        )
    run.add_argument(
        "--workers", type=_count, default=1, metavar="N", help=f"{WORKERS_HELP}  [default: 1]"
    )
    run.add_argument("--reload", action="store_true", help=RELOAD_HELP)
    run.add_argument(
        "--log-level", default="info", choices=LOG_LEVELS, help=f"{LEVEL_HELP}  [default: info]"
    )
    return made


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= WORKERS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {WORKERS_MAX}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command without the server's extra."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and arguments[0] not in ("run", "-h", "--help"):
        text = f"popmq: {arguments[0]} needs the server extra: pip install 'popmq[server]'"
        print(text, file=sys.stderr)
        return FAILED
    asked = vars(parser().parse_args(arguments))
    asked.pop("command")
    try:
        return run(RunOptions(**asked))
    except Misuse as wrong:
        print(f"popmq: {wrong}", file=sys.stderr)
        return MISUSED


if __name__ == "__main__":
    sys.exit(main())
