"""popmq-pipelines: snapshots of a broker's data directory, and their audit.

Exit codes: 0 done or PASS, 1 FAIL, 2 it could not be run, 4 INCOMPLETE, 70 it crashed.
"""

import argparse
import os
import sys
import traceback
from pathlib import Path
from typing import Final

from popmq_pipelines import audit_commands, cluster_commands, lake_commands, stream_commands
from popmq_pipelines.command_parts import OVERLAPS, CannotWrite, Overlaps, fail

CRASHED = 70  # no verdict at all; must not look like FAIL
_PACKAGES = {
    "pyspark": "pipelines",
    "py4j": "pipelines",
    "pyarrow": "pipelines",
    "deltalake": "lake",
}
"""Package → the extra that brings it."""


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    command = COMMANDS[options.command]
    try:
        return command(options)
    except Overlaps as taken:
        print(taken, file=sys.stderr)
        return OVERLAPS
    except CannotWrite as wrong:
        return fail(str(wrong))
    except ModuleNotFoundError as missing:
        name = (missing.name or "").partition(".")[0]
        if name not in _PACKAGES:
            raise
        return fail(f"{name} is not installed: pip install 'popmq[{_PACKAGES[name]}]'")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="popmq-pipelines", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="write a snapshot of a data directory, read-only")
    export.add_argument("--data-dir", type=Path, required=True)
    export.add_argument("--out", type=Path, required=True, help="a new directory")
    export.add_argument("--snapshot-id", help="default: broker, time and end of the log")
    audit_commands.add_to(commands)
    cluster_commands.add_to(commands)
    lake_commands.add_to(commands)
    stream_commands.add_to(commands)
    replicas = commands.add_parser(
        "replicas", help="compare the logs of a broker's replicas, byte by byte"
    )
    replicas.add_argument("data_dirs", type=Path, nargs="+", metavar="DATA_DIR")
    replicas.add_argument("--json", action="store_true", help="print the result as JSON")
    show = commands.add_parser("show", help="all that a snapshot knows about one message")
    show.add_argument("--snapshot", type=Path, required=True)
    show.add_argument("--topic", required=True)
    show.add_argument("--queue", type=int, required=True)
    show.add_argument("--offset", type=int, required=True)
    return parser


def _export(options: argparse.Namespace) -> int:
    from popmq_pipelines.export.snapshot_writer import CannotExport, export
    from popmq_pipelines.snapshot.seal import BadKey, key_of

    try:
        key = key_of(os.environ)
        manifest = export(options.data_dir, options.out, options.snapshot_id, key)
    except (CannotExport, BadKey, OSError) as wrong:
        return fail(str(wrong))
    print(f"Snapshot {manifest.snapshot_id} in {options.out}")
    for table, told in manifest.files.items():
        print(f"  {told['rows']:>10}  {table}")
    for problem in manifest.problems:
        print(f"  incomplete: {problem}")
    return 0


def _show(options: argparse.Namespace) -> int:
    from popmq_pipelines import show_message

    try:
        found = show_message.history(options.snapshot, options.topic, options.queue, options.offset)
    except FileNotFoundError as wrong:
        return fail(str(wrong))
    if not found:
        return fail(f"nothing of {options.topic} queue {options.queue} offset {options.offset}")
    print("\n".join(show_message.lines(found)))
    return 0


def _replicas(options: argparse.Namespace) -> int:
    from popmq_pipelines.jobs import compare_replicas
    from popmq_pipelines.tables import session

    data_dirs = {str(path): path for path in options.data_dirs}
    if len(data_dirs) < 2:
        return fail("two data directories at least are needed to compare them")
    for path in data_dirs.values():
        if not (path / "commitlog").is_dir():
            return fail(f"{path} is no data directory: it has no commitlog/")
    try:
        spark = session.start("popmq-replicas", os.environ)
    except session.JavaMissing as wrong:
        return fail(str(wrong))
    try:
        found = compare_replicas.compare_replicas(spark, data_dirs)
    finally:
        spark.stop()
    print(compare_replicas.as_json(found) if options.json else compare_replicas.text(found))
    return found.verdict.exit_code


COMMANDS: Final = {
    **audit_commands.COMMANDS,
    **cluster_commands.COMMANDS,
    **lake_commands.COMMANDS,
    **stream_commands.COMMANDS,
    "export": _export,
    "replicas": _replicas,
    "show": _show,
}


def run() -> int:
    """A crash has an exit code of its own."""
    try:
        return main()
    except Exception:
        traceback.print_exc()
        return CRASHED


if __name__ == "__main__":
    sys.exit(run())
