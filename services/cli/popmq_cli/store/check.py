"""popmq store check: are the files of a broker sound?"""

import sys
from pathlib import Path

import click

from popmq_broker.store.offline import closed_directory as tools
from popmq_broker.store.offline.closed_directory import Checked
from popmq_cli.shell.commands import Command, json_option
from popmq_cli.shell.output import document, progress
from popmq_cli.store.refusals import EXIT_FINDINGS, EXIT_SOUND, with_exit_codes
from popmq_cli.store.shards import ShardDirectory, shard_option, shards_in, together
from popmq_common.words import counted


@click.command(cls=Command)
@click.argument(
    "data_dir", metavar="DIR", type=click.Path(path_type=Path, exists=True, file_okay=False)
)
@shard_option
@json_option
@with_exit_codes
def check(data_dir: Path, shard: int | None, as_json: bool) -> None:
    """Check all files of the data directory DIR against each other.

    Of a standalone with several cores, all shards are checked. Nothing is changed.
    """
    shards = shards_in(data_dir, shard)
    told: list[tuple[ShardDirectory, dict[str, object]]] = []
    wrong_count = 0
    for one in shards:
        with progress("Reading the log") as tell:
            checked = tools.check(one.path, tell)
        wrong_count += checked.findings.wrong_count
        if as_json:
            told.append((one, _fields(checked)))
        else:
            if len(shards) > 1:
                click.echo(one.heading)
            _show(checked)
    if as_json:
        document(together(told))
    sys.exit(EXIT_FINDINGS if wrong_count else EXIT_SOUND)


def _fields(checked: Checked) -> dict[str, object]:
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


def _show(checked: Checked) -> None:
    findings = checked.findings
    for finding in findings.wrong:
        click.echo(f"{finding.path} at {finding.offset}: {finding.reason}")
    for finding in findings.notes:
        click.echo(f"note: {finding.path} at {finding.offset}: {finding.reason}")
    verdict = counted(findings.wrong_count, "finding") if findings.wrong_count else "sound"
    click.echo(
        f"{counted(checked.records, 'record')} between {checked.log_start} and "
        f"{checked.log_end} in {counted(len(checked.queues), 'queue')}, "
        f"{checked.journal_records} of the journal: {verdict}"
    )
