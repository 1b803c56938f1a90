"""Two looks at a cluster make rates, rows and warnings."""

from typing import Any

import pytest

from popmq_admin.v1 import admin_pb2 as admin
from popmq_cli.cluster.top_screen import screen
from popmq_readings.cluster_view import Look, view_of
from popmq_readings.cluster_warnings import Severity, cluster_warnings
from popmq_readings.short_numbers import bytes_text, clipped, count_text, rate_text, up_text

NOW = 1_700_000_000_000
START = NOW - 3_600_000
MIB = 1 << 20


def figures(**fields: Any) -> admin.BrokerFigures:
    base = {
        "version": "1.0",
        "now_ms": NOW,
        "started_ms": START,
        "cpu_ms": 10_000,
        "memory_bytes": 90 * MIB,
        "disk_total_bytes": 100 * MIB,
        "disk_free_bytes": 50 * MIB,
        "stored": 1_000,
        "handed_out": 900,
        "acked": 800,
    }
    return admin.BrokerFigures(**{**base, **fields})


def group(**fields: Any) -> admin.GroupFigures:
    base = {"group": "g", "topic": "t", "last_receive_ms": NOW, "waiting_polls": 1}
    return admin.GroupFigures(**{**base, **fields})


def look(*brokers: admin.BrokerFigures, **fields: Any) -> Look:
    answers = [
        admin.BrokerAnswer(name=f"b{place}", address=f"h:{place}", figures=found)
        for place, found in enumerate(brokers)
    ]
    base = {
        "now_ms": NOW,
        "nameservers": [
            admin.NameserverFigures(
                address="n:1", version="1.0", started_ms=START, brokers=len(brokers)
            )
        ],
        "brokers": answers,
        "proxies": [proxy()],
    }
    return Look(**{**base, **fields})


def proxy(**fields: Any) -> admin.ProxyFigures:
    base = {
        "id": "p",
        "address": "p:8081",
        "version": "1.0",
        "now_ms": NOW,
        "started_ms": START,
        "calls": 1_000,
        "failed": 0,
    }
    return admin.ProxyFigures(**{**base, **fields})


def test_rates_are_what_came_between_two_looks() -> None:
    before = figures(
        now_ms=NOW - 2_000,
        stored=400,
        handed_out=500,
        acked=600,
        cpu_ms=9_000,
        groups=[group(handed_out=500, acked=600)],
        topics=[admin.TopicFigures(topic="t", stored=400)],
    )
    after = figures(
        groups=[group(handed_out=900, acked=800, ready=5, in_flight=3, delayed=2, blocked=1)],
        topics=[admin.TopicFigures(topic="t", stored=900), admin.TopicFigures(topic="u", stored=8)],
    )
    view = view_of(look(after, after), look(before, before))
    assert (view.in_s, view.out_s, view.acked_s) == (600, 400, 200)
    (row,) = view.groups
    assert (row.lag, row.ready, row.out_s, row.acked_s) == (22, 10, 400, 200)
    assert [(one.topic, one.in_s) for one in view.topics] == [("t", 500), ("u", 8)]
    broker = view.services[1]
    assert (broker.name, broker.cpu, broker.in_s, broker.up_ms) == ("b0", 0.5, 300, NOW - START)


def test_nothing_is_known_of_a_broker_that_has_just_started() -> None:
    view = view_of(look(figures()), look(figures(now_ms=NOW - 1_000, started_ms=START - 1)))
    assert (view.in_s, view.services[1].cpu) == (None, None)
    assert view_of(look(figures())).in_s is None


REPORTED = {
    "now_ms": NOW - 3_000,
    "calls": 1_000,
    "failed": 20,
    "cpu_ms": 9_000,
    "before_ms": NOW - 8_000,
    "before_calls": 500,
    "before_failed": 10,
    "before_cpu_ms": 8_000,
}


def test_a_proxy_whose_report_is_older_than_the_look_has_the_rates_of_its_last_two() -> None:
    """It reports every five seconds; two looks a second apart mostly see the same report."""
    once = look(figures(), proxies=[proxy(**REPORTED)])
    for view in (view_of(once, once), view_of(once)):
        seen = view.services[-1]
        assert (seen.in_s, seen.out_s, seen.cpu) == (100, 2, 0.2)


def test_a_proxy_that_has_reported_in_between_has_the_rates_since() -> None:
    again = {**REPORTED, "now_ms": NOW, "calls": 1_300}
    view = view_of(
        look(figures(), proxies=[proxy(**again)]), look(figures(), proxies=[proxy(**REPORTED)])
    )
    assert view.services[-1].in_s == 100


def test_a_proxy_is_called_by_its_name() -> None:
    named = look(figures(), proxies=[proxy(name="popmq-proxy-1", calls=100, failed=50)])
    before = look(figures(), proxies=[proxy(now_ms=NOW - 1_000, calls=0)])
    view = view_of(named, before)
    assert view.services[-1].name == "popmq-proxy-1"
    (warning,) = cluster_warnings(view)
    assert "proxy popmq-proxy-1 fail" in warning.what
    assert "popmq-proxy-1" in "\n".join(screen(view, [], "127.0.0.1:8081", 80, 24))


WRONG: dict[str, tuple[Look, str]] = {
    "a nameserver is down": (
        look(figures(), nameservers=[admin.NameserverFigures(address="n:1", failure="refused")]),
        "nameserver-down",
    ),
    "a nameserver knows fewer brokers": (
        look(
            figures(),
            nameservers=[
                admin.NameserverFigures(address="n:1", brokers=2),
                admin.NameserverFigures(address="n:2", brokers=1),
            ],
        ),
        "nameserver-misses-brokers",
    ),
    "no broker": (look(), "no-broker"),
    "a broker is down": (
        look(brokers=[admin.BrokerAnswer(name="b", address="h:1", failure="refused")]),
        "broker-down",
    ),
    "a broker came back with another directory, as two others say": (
        look(*[figures(replaced_peers=["b2"])] * 2, figures()),
        "broker-replaced",
    ),
    "a broker says so of itself": (look(figures(replaced_peers=["b0"])), "broker-replaced"),
    "a disk fills": (look(figures(disk_state=1)), "disk-fills"),
    "a disk is full": (look(figures(disk_state=2)), "disk-full"),
    "retries are late": (look(figures(late_ms=5_001)), "late"),
    "messages in no state": (look(figures(groups=[group(unaccounted=-1)])), "unaccounted"),
    "nobody consumes": (
        look(
            figures(groups=[group(ready=3, waiting_polls=0, last_receive_ms=NOW - 61_000)]),
        ),
        "group-stuck",
    ),
    "nobody has consumed since the start": (
        look(figures(groups=[group(ready=3, waiting_polls=0, last_receive_ms=0)])),
        "group-stuck",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_warned_of(name: str) -> None:
    found, code = WRONG[name]
    (warning,) = cluster_warnings(view_of(found))
    assert (warning.code, warning.severity) == (code, Severity.WRONG)
    assert warning.todo


def test_a_replaced_broker_is_named_with_the_command_that_accepts_it() -> None:
    (warning,) = cluster_warnings(view_of(look(figures(), figures(replaced_peers=["b0"]))))
    assert warning.what.startswith("broker b0 came back")
    assert "popmq cluster accept b0" in warning.todo


def test_calls_that_fail_are_warned_of() -> None:
    before = look(figures(), proxies=[proxy(now_ms=NOW - 1_000, calls=0)])
    well = view_of(look(figures(), proxies=[proxy(failed=10)]), before)
    assert cluster_warnings(well) == []
    (warning,) = cluster_warnings(view_of(look(figures(), proxies=[proxy(failed=20)]), before))
    assert (warning.code, warning.what) == ("calls-fail", "2% of the calls at proxy p:8081 fail")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"version": "0.9"}, "versions-differ"),
        ({"answers_early": True}, "answers-early"),
        ({"dead": 3}, "dead-letters"),
        ({"groups_left_out": 1}, "left-out"),
    ],
)
def test_what_is_worth_knowing_is_a_note(fields: dict[str, Any], code: str) -> None:
    (warning,) = cluster_warnings(view_of(look(figures(**fields))))
    assert (warning.code, warning.severity) == (code, Severity.NOTE)


def test_a_cluster_that_is_well_has_no_warnings() -> None:
    polled = group(ready=3, waiting_polls=0, last_receive_ms=NOW - 59_000)
    assert cluster_warnings(view_of(look(figures(groups=[polled], late_ms=5_000)))) == []


@pytest.mark.parametrize(("width", "height"), [(60, 24), (67, 20), (80, 24), (80, 20), (132, 50)])
def test_a_screen_keeps_to_its_size(width: int, height: int) -> None:
    groups = [
        group(group=f"group-{i}" * 9, topic="topic" * 20, ready=10 ** (i % 16)) for i in range(40)
    ]
    topics = [
        admin.TopicFigures(topic="t" * 120 + str(i), stored=10 ** (i % 16)) for i in range(40)
    ]
    busy = figures(groups=groups, topics=topics, stored=10**12, disk_state=2)
    proxies = [proxy(id=str(i), address=f"a-long-host-name.example.org:{i}") for i in range(9)]
    view = view_of(look(*[busy] * 8, proxies=proxies))
    lines = screen(view, cluster_warnings(view), "127.0.0.1:8081", width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width, [line for line in lines if len(line) > width]
    text = "\n".join(lines)
    for expected in ("GROUP, BY LAG", "TOPIC, BY RATE", "BROKERS, PROXIES", "refuses sends"):
        assert expected in text


def test_amounts_are_short() -> None:
    assert [count_text(n) for n in (0, 99_999, 100_000, 4_560_000, 10**9)] == [
        "0", "99,999", "100k", "4.6M", "1.0G",
    ]  # fmt: skip
    assert [bytes_text(n) for n in (5, 1_536, 90 * MIB)] == ["5 B", "1.5 KiB", "90 MiB"]
    assert [rate_text(n) for n in (None, 0, 0.5, 12.3)] == ["-", "0", "0.5", "12"]
    times_ms = (0, 61_000, 3_600_000, 90_061_000)
    assert [up_text(ms) for ms in times_ms] == ["0s", "1m 1s", "1h 0m", "1d 1h"]
    assert clipped("abcdefgh", 5) == "ab…gh"
