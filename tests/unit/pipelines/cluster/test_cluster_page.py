"""The cluster's report as a page and in a terminal."""

import re
from collections import Counter
from pathlib import Path

from harness.audited_brokers import MINUTE, broker, made

from popmq_pipelines.audit.verdict import AuditVerdict
from popmq_pipelines.cluster.audited_broker import AuditedBroker, Traffic
from popmq_pipelines.cluster.cluster_page import page
from popmq_pipelines.cluster.cluster_text import text
from popmq_pipelines.snapshot.columns import names

SKIPPED = {"kind": "skipped", "topic": "<b>", "consumer_group": "billing"}
FAIL = {"verdict": AuditVerdict.FAIL, "finding_places": [{**SKIPPED, "finding_count": 3}]}


def lively(minutes: int) -> AuditedBroker:
    return broker(
        "broker-a",
        stored={"orders": Traffic(9, 900), "<b>": Traffic(1, 1), "rmq_sys_x": Traffic(5, 5)},
        minutes={"shop": {at * MINUTE: Traffic(3, 300) for at in range(minutes)}},
        balance={("orders", "billing"): Counter(stored=9, acked=9)},
        times={("money", "store to ack", 1): Counter({0: 5, 3: 4})},
    )


def test_names_are_escaped() -> None:
    finding = {**dict.fromkeys(names("recon_gaps")), **SKIPPED, "queue_id": 0, "queue_offset": 7}
    told = page(made(broker("<i>", **FAIL)), [("<i>", finding, Path("s"))], "findings.csv")
    assert "<b>" not in told.replace("<b>3</b>", "")
    assert "<i>" not in told.replace("<i class", "")
    assert "&lt;b&gt;" in told


def test_a_chart_has_more_than_a_dot_or_is_none() -> None:
    assert "Over time" not in page(made(lively(1)), [], "findings.csv")
    told = page(made(lively(3)), [], "findings.csv")
    assert "Over time" in told
    assert "<circle" not in told


def test_inner_topics_are_apart() -> None:
    told = page(made(lively(1)), [], "findings.csv")
    before, _, after = told.partition("Inner topics")
    assert "rmq_sys_x" in after
    assert "rmq_sys_x" not in before


def test_a_pass_asks_for_nothing_and_names_no_file() -> None:
    told = page(made(lively(1)), [], "findings.csv")
    assert "<h2>What to do</h2><p>Nothing.</p>" in told
    assert "findings.csv" not in told


def test_a_table_has_as_many_cells_as_heads() -> None:
    finding = {**dict.fromkeys(names("recon_gaps")), **SKIPPED, "queue_id": 0, "queue_offset": 7}
    brokers = made(lively(3), broker("broker-b", **FAIL))
    told = page(brokers, [("broker-b", finding, Path("s"))], "findings.csv")
    tables = re.findall(r"<table>.*?</table>", told, re.DOTALL)
    assert len(tables) > 5
    for table in tables:
        heads = table.count("<th")  # and one of thead
        assert {row.count("<td") + 1 for row in table.split("<tr>")[2:]} == {heads}


def test_in_a_terminal() -> None:
    lines = text(made(lively(1), broker("broker-b", **FAIL))).splitlines()
    assert lines[0].startswith("FAIL: all brokers. Messages are missing")
    assert any(line.split()[:5] == ["broker-b", "FAIL", "0", "to", "100"] for line in lines)
    assert any("(skipped)" in line for line in lines)
    assert any(line.split()[:3] == ["shop", "9", "900"] for line in lines)
