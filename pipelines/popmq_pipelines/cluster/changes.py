"""What changed from one report of the cluster to the next, in words."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

SHOWN_MAX: Final = 50


def between(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Both as JSON has them. The first `SHOWN_MAX`, those that matter most first."""
    found = [*_verdicts(before, now), *_findings(before, now), *_names(before, now)]
    found += _sums(before, now)
    if len(found) > SHOWN_MAX:
        found = [*found[:SHOWN_MAX], f"and {len(found) - SHOWN_MAX:,} more changes"]
    return found


def _verdicts(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if before["verdict"] != now["verdict"]:
        yield f"The verdict was {before['verdict']} and is {now['verdict']}."
    known = {one["broker"]: one["verdict"] for one in before["coverage"]}
    for one in now["coverage"]:
        was = known.pop(one["broker"], None)
        if was is None:
            yield f"{one['broker']} was audited for the first time: {one['verdict']}."
        elif was != one["verdict"]:
            yield f"{one['broker']}: {was} before, {one['verdict']} now."
    for broker in known:
        yield f"{broker} is not in this report any more."


def _findings(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    was, there = before["finding_places"], now["finding_places"]
    for place, count in there.items():
        more = count - was.get(place, 0)
        if more > 0:
            yield f"{more:,} new: {place}."
        elif more < 0:
            yield f"{-more:,} fewer: {place}."
    for place, count in was.items():
        if place not in there:
            yield f"No longer found: {place} ({count:,})."


def _names(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for table, name, called in (
        ("topics", "topic", "Topic"),
        ("groups", "consumer_group", "Group"),
        ("owners", "owner", "Owner"),
    ):
        was = {row[name] for row in before[table]} - {""}
        there = {row[name] for row in now[table]} - {""}
        for fresh in sorted(there - was):
            yield f"{called} {fresh} is new."
        for gone in sorted(was - there):
            yield f"{called} {gone} has no messages any more."


def _sums(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name, said in (("stored", "messages stored"), ("stored_bytes", "bytes stored")):
        more = _sum(now, name) - _sum(before, name)
        if more:
            yield f"{abs(more):,} {'more' if more > 0 else 'fewer'} {said}."
    dead = _dead(now) - _dead(before)
    if dead > 0:
        yield f"{dead:,} more dead letters."


def _sum(report: Mapping[str, Any], name: str) -> int:
    return sum(int(row[name]) for row in report["owners"])


def _dead(report: Mapping[str, Any]) -> int:
    return sum(int(row["counts"].get("dead", 0)) for row in report["groups"])
