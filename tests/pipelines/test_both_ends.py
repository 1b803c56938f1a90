"""What clients of a real cluster have counted, against the snapshots of its brokers: they agree.
Each fault that no broker's file shows by itself is found, at its topic and minute."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness.processes import cluster
from planted.planting import Planting
from pyspark.sql import SparkSession

from popmq import Client, RefusedByServer
from popmq._core.counts import MessageFate
from popmq_common.records.count_report import CountedAs
from popmq_console.reading.audit_reports import audit_reports
from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.export.snapshot_writer import export
from popmq_pipelines.jobs.audit_both_ends import FOLDER, audit_both_ends
from popmq_pipelines.jobs.audit_brokers import audit_brokers
from popmq_pipelines.jobs.balance_counts import Balance, as_json, balance_counts, newest, text
from popmq_pipelines.jobs.reconcile import GRACE_MS
from popmq_pipelines.report import last_report
from popmq_pipelines.report.publish import ReportTargets, publish

pytestmark = [
    pytest.mark.pipelines,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("few_rows"),
]
BROKERS = ("broker-a", "broker-b")
SENT = 60
OFFICIAL = 7
"""Messages of a client that counts nothing, the first one sent before the group began."""
TAKEN = SENT + OFFICIAL
"""One of a transaction is received besides."""
LIVE_S = 60.0


async def live(endpoint: str) -> None:
    async with (
        Client(endpoint, counts=True) as client,
        Client(endpoint, counts=False) as other,
        client.producer() as producer,
    ):
        await other.send("orders", b"before the group")
        assert not await client.receive("orders", "billing", wait_s=0.1)
        await asyncio.gather(*(producer.send("orders", b"m") for _ in range(SENT - 10)))
        for _ in range(10):
            await client.send("orders", b"alone")
        for _ in range(OFFICIAL - 1):
            await other.send("orders", b"uncounted")
        await client.send("orders", b"late", delay_s=3_600)
        half = await client.transactions.send("orders", b"paid")
        await half.commit()
        half = await client.transactions.send("orders", b"unpaid")
        await half.rollback()
        with pytest.raises(RefusedByServer):
            await client.send("refusals", b"large", properties={"x": "y" * 40_000})
        left = TAKEN
        while left:
            found = await client.receive("orders", "billing", max_messages=16, wait_s=2.0)
            for message in found:
                if left % 5 == 0:
                    await client.nack(message, delay_s=60.0)
                else:
                    await client.ack(message)
                left -= 1


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of both brokers, stopped after everything was answered."""
    folder = tmp_path_factory.mktemp("both_ends")
    env = {"POPMQ_PROXY_CREATE_TOPICS": "true", "POPMQ_BROKER_CREATE_TOPICS": "true"}
    with cluster(folder, env, brokers=2, proxies=1) as server:
        asyncio.run(asyncio.wait_for(live(server.endpoint), LIVE_S))
    for name in BROKERS:
        export(folder / name, folder / "snapshots" / name)
    return folder / "snapshots"


def balance(spark: SparkSession, snapshots: Path) -> Balance:
    """All ran on one machine, whose clock is one."""
    return balance_counts(spark, newest([snapshots], None), skew_ms=0)


def test_both_ends_agree(spark: SparkSession, snapshots: Path) -> None:
    found = balance(spark, snapshots)
    assert (found.verdict, found.problems, found.findings) == (AuditVerdict.PASS, [], [])
    counted = ("topic", "sent", "stored", "unknown", "refused")
    assert [tuple(row[name] for name in counted) for row in found.sent] == [
        ("orders", SENT + 3, SENT + 3, 0, 0),
        ("refusals", 0, 0, 0, 1),
    ]
    (taken,) = found.taken
    assert (taken["received"], taken["leased"]) == (TAKEN, TAKEN)
    assert [dict(row) for row in found.not_counting] == [{"topic": "orders", "stored": OFFICIAL}]
    assert f"{OFFICIAL} stored by clients that are not counting" in text(found)
    assert '"verdict": "PASS"' in as_json(found)


def a_message(rows: Planting) -> dict[str, Any]:
    prefix = rows.tables["client_reports"][0]["id_prefix"] if rows.tables["client_reports"] else ""
    mine = [row for row in rows.rows("commitlog_index", topic="orders")]
    return next(row for row in mine if prefix == "" or row["message_id"].startswith(prefix))


def never_stored(brokers: list[Planting], reporting: Planting, other: Planting) -> None:
    reporting.tables["commitlog_index"].remove(a_message(reporting))


def another_stored(brokers: list[Planting], reporting: Planting, other: Planting) -> None:
    row = a_message(reporting)
    row["message_id"] = row["message_id"][:-4] + "FFFF"


def never_sent(brokers: list[Planting], reporting: Planting, other: Planting) -> None:
    row = a_message(reporting)
    more = {"message_id": row["message_id"][:-4] + "FFFF", "log_offset": row["log_offset"] + 1}
    reporting.add("commitlog_index", row, queue_offset=row["queue_offset"] + 1_000, **more)


def never_leased(brokers: list[Planting], reporting: Planting, other: Planting) -> None:
    rows = reporting.rows("pop_checkpoints", consumer_group="billing")
    lease = next(row for row in rows if row["generation"] == 1)
    place = {name: lease[name] for name in ("topic", "queue_id", "queue_offset")}
    reporting.drop("pop_checkpoints", **place)
    for row in reporting.rows("pop_acks", **place):
        reporting.tables["pop_acks"].remove(row)


def never_acked(brokers: list[Planting], reporting: Planting, other: Planting) -> None:
    reporting.tables["pop_acks"].remove(reporting.rows("pop_acks", expired=False)[0])


def other_ids(brokers: list[Planting], reporting: Planting, other: Planting) -> None:
    """What the consumer got has other ids than what was leased to it."""
    rows = [row for row in reporting.tables["client_counts"] if row["counted_as"] in ("received",)]
    rows[0]["digest"] += 1


def report_lost(brokers: list[Planting], reporting: Planting, other: Planting) -> None:
    for report in reporting.tables["client_reports"]:
        report["sequence"] += 1
    for row in reporting.tables["client_counts"]:
        row["sequence"] += 1


FAULTS: dict[str, tuple[Callable[[list[Planting], Planting, Planting], None], str]] = {
    "never stored": (never_stored, "sent and not stored"),
    "another stored": (another_stored, "sent, and others stored"),
    "never sent": (never_sent, "stored and not sent"),
    "never leased": (never_leased, "received without lease"),
    "never acked": (never_acked, "acked without ack"),
    "other ids": (other_ids, "received, and others leased"),
}


ALSO = {
    "another stored": ("received, and others leased", "acked, and others ended"),
    "never leased": ("acked without ack",),
}
"""A message that is another one has another id for its consumer too; without a lease, no ack."""


def planted(snapshots: Path, tmp_path: Path, plant: Any) -> Path:
    shutil.copytree(snapshots, tmp_path / "planted")
    brokers = [Planting(tmp_path / "planted" / name) for name in BROKERS]
    (reporting,) = [one for one in brokers if one.tables["client_reports"]]
    (other,) = [one for one in brokers if one is not reporting]
    plant(brokers, reporting, other)
    for one in brokers:
        one.write()
    return tmp_path / "planted"


@pytest.mark.parametrize("name", FAULTS)
def test_what_no_broker_shows_by_itself_is_found(
    spark: SparkSession, tmp_path: Path, snapshots: Path, name: str
) -> None:
    plant, kind = FAULTS[name]
    found = balance(spark, planted(snapshots, tmp_path, plant))
    assert found.verdict is AuditVerdict.FAIL
    kinds = {row["kind"] for row in found.findings}
    assert kind in kinds, found
    assert kinds <= {kind, *ALSO.get(name, ())}
    assert {row["topic"] for row in found.findings} == {"orders"}
    first = next(row for row in found.findings if row["kind"] == kind)
    assert first["finding_count"] == 1
    assert kind in text(found)


def test_a_report_that_was_lost_is_seen(
    spark: SparkSession, tmp_path: Path, snapshots: Path
) -> None:
    found = balance(spark, planted(snapshots, tmp_path, report_lost))
    assert (found.verdict, found.findings) == (AuditVerdict.INCOMPLETE, [])
    assert "1 of 2 reports" in found.problems[0]


def test_without_reports_nothing_is_green(
    spark: SparkSession, tmp_path: Path, snapshots: Path
) -> None:
    def forget(brokers: list[Planting], reporting: Planting, other: Planting) -> None:
        reporting.tables["client_reports"], reporting.tables["client_counts"] = [], []

    found = balance(spark, planted(snapshots, tmp_path, forget))
    assert found.verdict is AuditVerdict.INCOMPLETE
    assert "no client has reported" in found.problems[0]


def test_each_kind_of_count_has_one_name_on_both_sides() -> None:
    assert [one.name for one in MessageFate] == [one.name for one in CountedAs]


def test_the_audit_of_all_brokers_has_both_ends(
    spark: SparkSession, tmp_path: Path, snapshots: Path
) -> None:
    out = tmp_path / "audit"
    out.mkdir()

    def audit(*names: str) -> int:
        dirs = [snapshots.parent / name for name in names]
        return audit_brokers(dirs, out, lambda _: spark, grace_ms=GRACE_MS, skew_ms=0)

    assert audit(*BROKERS) == 0
    report, _ = last_report.load(out / FOLDER / "report")
    assert (report.broker, report.verdict, report.findings) == ("both ends", AuditVerdict.PASS, [])
    assert 'broker="both ends",verdict="PASS"} 1' in (out / f"{FOLDER}.prom").read_text()
    assert audit(*BROKERS, "nowhere") == AuditVerdict.INCOMPLETE.exit_code
    report, _ = last_report.load(out / FOLDER / "report")
    assert report.problems == ["not every broker could be read"]


def test_a_report_of_both_ends_says_what_is_missing_and_where(
    spark: SparkSession, tmp_path: Path, snapshots: Path
) -> None:
    folder = planted(snapshots, tmp_path, never_stored)
    report = audit_both_ends(spark, [folder / name for name in BROKERS], None, skew_ms=0)
    assert report is not None
    assert report.finding_counts == {"sent and not stored": 1}
    targets = ReportTargets(
        out=tmp_path / "report", html=tmp_path / "a.html", markdown=tmp_path / "a.md"
    )
    assert publish(report, tmp_path, targets, 1.0) == AuditVerdict.FAIL.exit_code
    for told in (tmp_path / "a.html", tmp_path / "a.md"):
        assert "sent and not stored: 1 in orders of client" in told.read_text()
        assert "--queue" not in told.read_text()
    (shown,) = audit_reports(tmp_path)
    assert (shown.broker, shown.verdict, shown.found) == ("both ends", "FAIL", 1)
