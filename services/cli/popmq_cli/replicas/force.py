"""popmq replica force: when no replica in sync is left, another one becomes primary."""

import asyncio
import os

import click

from popmq_broker.config import BrokerConfig
from popmq_broker.force import Outlook, forcing
from popmq_cli.shell.commands import Command, json_option
from popmq_cli.shell.output import document, fail, is_json
from popmq_common.errors import PopMQError
from popmq_common.process import logs
from popmq_common.process.clock import SystemClock
from popmq_common.process.config import ConfigError, from_env
from popmq_readings.times import moment

EXIT_NOT_LIKE_THAT = 2


@click.command(cls=Command)
@click.argument("broker")
@click.option(
    "--register",
    required=True,
    metavar="URL",
    envvar="POPMQ_BROKER_REGISTER",
    help="The register, as POPMQ_BROKER_REGISTER names it.",
)
@click.option("--replica", required=True, metavar="NAME", help="The replica to make primary.")
@click.option(
    "--address",
    required=True,
    metavar="HOST:PORT",
    envvar="POPMQ_BROKER_ADVERTISE",
    help="Where its link is: its POPMQ_BROKER_ADVERTISE.",
)
@click.option(
    "--min-in-sync",
    type=click.IntRange(1, 100),
    metavar="COUNT",
    help="How many must be in sync from now on; as before if you do not say it.",
)
@click.option("--confirm", default="", metavar="BROKER", help="The broker's name: do not ask.")
@json_option
def force(
    broker: str,
    register: str,
    replica: str,
    address: str,
    min_in_sync: int | None,
    confirm: str,
    as_json: bool,
) -> None:
    """Make a replica primary that may lack messages of BROKER. They are lost.

    Use it only when no replica that is in sync can come back. It talks to the register and to the
    replica, which must run; no proxy is needed. Run it with the POPMQ_BROKER_ variables of the
    replica: the link's secret, TLS and the register's access are taken from there.
    """
    of_replica = {
        "NAME": broker,
        "REGISTER": register,
        "REPLICA": replica,
        "ADVERTISE": address,
        "DATA_DIR": os.devnull,
    }
    environ = {**os.environ, **{f"POPMQ_BROKER_{key}": text for key, text in of_replica.items()}}
    try:
        logs.configure("warning")
        config = from_env(BrokerConfig, "POPMQ_BROKER_", environ)
        asyncio.run(_force(config, min_in_sync, confirm))
    except ConfigError as wrong:
        fail(str(wrong), EXIT_NOT_LIKE_THAT)
    except PopMQError as wrong:
        fail(str(wrong))


async def _force(config: BrokerConfig, min_in_sync: int | None, confirm: str) -> None:
    async with forcing(config) as work:
        outlook = await work.look()
        if not is_json():
            for line in lines(outlook):
                click.echo(line)
        _confirm(config.name, confirm)
        record = await work.force(outlook, min_in_sync, SystemClock().now_ms())
        _tell(outlook, record.epoch, await work.follow(record))


def lines(outlook: Outlook) -> list[str]:
    """What is there, and what will be lost."""
    record, chosen = outlook.record, outlook.chosen
    in_sync = ", ".join(sorted(record.in_sync))
    stored = f", stored until {moment(chosen.last_stored_ms)}" if chosen.last_stored_ms else ""
    found = [
        f"Register: epoch {record.epoch}, primary {record.primary}, in sync {in_sync}.",
        f"Replica {chosen.replica} has the log up to byte {chosen.log_end}{stored}; it knows that "
        f"what is before byte {chosen.commit_point} was committed.",
    ]
    if outlook.loses_nothing:
        return [*found, "It is in sync: nothing is lost."]
    return [
        *found,
        "Lost is what was committed behind its log's end: messages that were answered OK, acks and "
        "settings. Nobody can say how much that is.",
        f"Make sure that {record.primary} does not run any more. A replica that comes back with "
        "more than this one ends with an error: start it with an empty directory.",
    ]


def _confirm(broker: str, confirm: str) -> None:
    if not confirm and is_json():
        raise click.UsageError(f"with --json nothing is asked: say --confirm {broker}")
    typed = confirm or click.prompt("Type the broker's name to go on", err=True)
    if typed != broker:
        fail(f"{typed} is not {broker}: nothing was changed")


def _tell(outlook: Outlook, epoch: int, role: str) -> None:
    replica = outlook.chosen.replica
    if is_json():
        document(
            {
                "replica": replica,
                "epoch": epoch,
                "role": role,
                "logEnd": outlook.chosen.log_end,
                "commitPoint": outlook.chosen.commit_point,
                "nothingLost": outlook.loses_nothing,
            }
        )
        return
    if role == "primary":
        click.echo(f"{replica} is primary and serves.")
    elif role == "taking over":
        click.echo(
            f"{replica} is primary, and waits until enough replicas are in sync: start others, "
            "with empty directories if need be."
        )
    else:
        fail(f"the register names {replica}, which is {role}; look at its log")
