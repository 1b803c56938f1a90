"""What is wrong with a cluster, or worth knowing, said in a line: decided from one view of it.

The alerts of deploy/monitoring look at hours; this looks at a moment, and needs no Prometheus.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.words import counted
from popmq_readings.cluster_view import View
from popmq_readings.doctor_checks import SILENT_MS
from popmq_readings.times import span_text

LATE_MS_MAX: Final = 5_000
FAILED_RATIO_MAX: Final = 0.01


class Severity(Enum):
    WRONG = "wrong"
    NOTE = "note"


class ClusterWarning(NamedTuple):
    severity: Severity
    code: str
    what: str
    todo: str


def cluster_warnings(view: View) -> list[ClusterWarning]:
    """What is wrong first."""
    found = [*_nameservers(view.look), *_brokers(view.look), *_proxies(view), *_groups(view)]
    found += _notes(view)
    return sorted(found, key=lambda warning: warning.severity is Severity.NOTE)


def _wrong(code: str, what: str, todo: str) -> ClusterWarning:
    return ClusterWarning(Severity.WRONG, code, what, todo)


def _note(code: str, what: str, todo: str) -> ClusterWarning:
    return ClusterWarning(Severity.NOTE, code, what, todo)


def _nameservers(look: admin.ShowClusterResponse) -> Iterator[ClusterWarning]:
    answered = [one for one in look.nameservers if not one.failure]
    most = max((one.brokers for one in answered), default=0)
    for one in look.nameservers:
        if one.failure:
            what = f"nameserver {one.address} does not answer: {one.failure}"
            yield _wrong("nameserver-down", what, "start it; the others and known routes are used")
        elif one.brokers < most:
            known = counted(one.brokers, "broker")
            what = f"nameserver {one.address} knows {known}, another one {most}"
            todo = "compare POPMQ_BROKER_NAMESERVERS of the brokers with its address"
            yield _wrong("nameserver-misses-brokers", what, todo)


def _brokers(look: admin.ShowClusterResponse) -> Iterator[ClusterWarning]:
    if not look.brokers:
        todo = "start one: popmq broker; or correct POPMQ_BROKER_NAMESERVERS"
        yield _wrong("no-broker", "no broker is registered", todo)
    replaced: set[str] = set()
    for answer in look.brokers:
        name, figures = f"broker {answer.name}", answer.figures
        if answer.failure:
            what = f"{name} at {answer.address} gives no figures: {answer.failure}"
            yield _wrong("broker-down", what, "look at its log; popmq doctor tells more")
            continue
        for peer in figures.replaced_peers:
            if peer not in replaced:
                replaced.add(peer)
                yield _replaced(peer)
        if figures.disk_state == 2:
            todo = "make room or add a disk; sends go on by themselves"
            yield _wrong("disk-full", f"{name} refuses sends, its disk is full", todo)
        elif figures.disk_state == 1:
            todo = "a larger disk, or shorter retention (docs/retention.md)"
            yield _wrong("disk-fills", f"{name} deletes messages before their time", todo)
        if figures.late_ms > LATE_MS_MAX:
            what = f"{name} is {span_text(figures.late_ms)} late with delayed messages or retries"
            yield _wrong(
                "late", what, "its disk or its processor is at a limit; or it just started"
            )


def _replaced(broker: str) -> ClusterWarning:
    what = f"broker {broker} came back with another data directory: what only it held is gone"
    todo = f"mount its old disk and restart it; or, if that is lost: popmq cluster accept {broker}"
    return _wrong("broker-replaced", what, todo)


def _proxies(view: View) -> Iterator[ClusterWarning]:
    for one in view.services:
        if one.role == "proxy" and one.in_s and (one.out_s or 0) / one.in_s > FAILED_RATIO_MAX:
            what = f"{(one.out_s or 0) / one.in_s:.0%} of the calls at proxy {one.label} fail"
            yield _wrong("calls-fail", what, "its log says why; popmq doctor looks at the brokers")


def _groups(view: View) -> Iterator[ClusterWarning]:
    for group in view.groups:
        name = f"group {group.group} on topic {group.topic}"
        if group.unaccounted:
            what = f"{name}: {counted(group.unaccounted, 'message')} in no state"
            todo = "a bug: keep the data directory, see docs/operations.md#messagesunaccounted"
            yield _wrong("unaccounted", what, todo)
        if group.ready and not group.waiting_polls and group.silent_ms > SILENT_MS:
            what = f"{name}: {counted(group.ready, 'message')} ready, and nobody has asked for "
            todo = f"start a consumer; or, if nobody needs them: popmq group delete {group.group}"
            yield _wrong("group-stuck", what + span_text(group.silent_ms), todo)


def _notes(view: View) -> Iterator[ClusterWarning]:
    versions = {one.version for one in view.services if one.version}
    if len(versions) > 1:
        what = f"several versions run: {', '.join(sorted(versions))}"
        yield _note("versions-differ", what, "fine during an upgrade: brokers first, then proxies")
    for answer in view.brokers:
        figures = answer.figures
        if figures.answers_early:
            what = f"broker {answer.name} answers before all is on disk, as it is configured"
            yield _note("answers-early", what, "flush=sync and pop_buffer=durable do not")
        if figures.dead:
            what = f"broker {answer.name} keeps {counted(figures.dead, 'dead letter')}"
            todo = "popmq dlq list GROUP shows them and why; redrive or purge them when done"
            yield _note("dead-letters", what, todo)
        if figures.groups_left_out or figures.topics_left_out:
            groups = counted(figures.groups_left_out, "group")
            what = f"{groups} and {counted(figures.topics_left_out, 'topic')} of "
            what += f"broker {answer.name} are not shown"
            yield _note("left-out", what, "those with the most messages are")
