"""popmq store check: are the files of a broker sound?"""

import sys
from pathlib import Path

import click

from popmq_broker.store.offline import closed_directory as tools
from popmq_broker.store.offline.closed_directory import Checked
from popmq_cli.shell.commands import Command, json_option
from popmq_cli.shell.output import progress
from popmq_cli.store.refusals import EXIT_FINDINGS, EXIT_SOUND, with_exit_codes
from popmq_cli.store.shards import Fields, Told, directory_argument, go_through, shard_option
from popmq_common.words import counted


@click.command(cls=Command)
@directory_argument
@shard_option
@json_option
@with_exit_codes
def check(data_dir: Path, shard: int | None, as_json: bool) -> None:
    """Check all files of the data directory DIR against each other.

    If there are several shards, all are checked. Nothing is changed.
    """
    found = go_through(data_dir, shard, as_json, _check)
    sys.exit(EXIT_FINDINGS if any(one["findingCount"] for one in found) else EXIT_SOUND)


def _check(data_dir: Path) -> Told:
    with progress("Reading the log") as tell:
        checked = tools.check(data_dir, tell)
    return _fields(checked), _lines(checked)


def _fields(checked: Checked) -> Fields:
    findings = checked.findings
    return {
        "logStart": checked.log_start,
        "logEnd": checked.log_end,
        "records": checked.records,
        "queues": len(checked.queues),
        "journalRecords": checked.journal_records,
        "findingCount": findings.wrong_count,
        "findings": [finding._asdict() for finding in findings.wrong],
        "notes": [finding._asdict() for finding in findings.notes],
    }


def _lines(checked: Checked) -> list[str]:
    findings = checked.findings
    verdict = counted(findings.wrong_count, "finding") if findings.wrong_count else "sound"
    return [
        *(f"{finding.path} at {finding.offset}: {finding.reason}" for finding in findings.wrong),
        *(
            f"note: {finding.path} at {finding.offset}: {finding.reason}"
            for finding in findings.notes
        ),
        f"{counted(checked.records, 'record')} between {checked.log_start} and "
        f"{checked.log_end} in {counted(len(checked.queues), 'queue')}, "
        f"{checked.journal_records} of the journal: {verdict}",
    ]
