"""What is wrong, or worth knowing: as `popmq doctor` and `popmq cluster status` say it, once."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from popmq_admin.v1 import admin_pb2 as admin
from popmq_readings.cluster_view import View
from popmq_readings.cluster_warnings import Severity, cluster_warnings
from popmq_readings.doctor_checks import Facts, findings
from popmq_readings.doctor_surprises import surprises

SCREENS: Final = {
    "group-": "/groups?state=stuck",
    "dead-": "/dead-letters",
    "topic-": "/topics",
    "late": "/later",
    "messages-": "/groups",
}
"""How codes begin → the screen that shows more; else the cluster's."""
SAID_BY_DOCTOR: Final = {"group-stuck", "disk-full", "disk-fills", "broker-replaced"}
"""Codes of warnings that doctor's findings tell in more words."""


class Remark(NamedTuple):
    tone: str
    """wrong, note."""
    code: str
    what: str
    why: str
    todo: str
    screen: str


def remarks(
    view: View | None, inspected: admin.InspectResponse | None, facts: Facts | None
) -> list[Remark]:
    """What is wrong first. None: the visitor may not know."""
    found: list[Remark] = []
    if facts is not None:
        for one in findings(facts):
            found.append(Remark("wrong", one.code, one.what, one.why, one.todo, _screen(one.code)))
    if view is not None:
        for warning in cluster_warnings(view):
            if facts is None or warning.code not in SAID_BY_DOCTOR:
                tone = "wrong" if warning.severity is Severity.WRONG else "note"
                screen = _screen(warning.code)
                found.append(Remark(tone, warning.code, warning.what, "", warning.todo, screen))
    if inspected is not None:
        found += _notes(inspected)
    return sorted(found, key=lambda one: one.tone == "note")


def _notes(inspected: admin.InspectResponse) -> Iterator[Remark]:
    for text in surprises(inspected.brokers):
        screen = "/topics" if text.startswith("topic") else "/groups"
        yield Remark("note", "surprise", text, "", "", screen)


def _screen(code: str) -> str:
    for begin, screen in SCREENS.items():
        if code.startswith(begin):
            return screen
    return "/cluster"
