"""/: what is wrong, what happens, and where it piles up."""

import json
from typing import Final

from starlette.responses import Response

from popmq_admin.v1 import admin_pb2 as admin
from popmq_common.process.installed import version
from popmq_console.asking.readings import inspected, look
from popmq_console.reading.history import Point
from popmq_console.reading.remarks import remarks
from popmq_console.visit import Visit
from popmq_readings.cluster_view import View
from popmq_readings.doctor_checks import Facts

GROUPS_SHOWN: Final = 12
TOPICS_SHOWN: Final = 12


async def overview(visit: Visit) -> Response:
    view = await look(visit)
    state = await inspected(visit)
    facts = None if state is None else _facts(visit, state)
    return visit.page(
        "overview.html",
        area="/",
        view=view,
        remarks=remarks(view, state, facts),
        sums=None if view is None else sums(view),
        points=chart(visit.console.history.points(visit.who)),
        groups=view.groups[:GROUPS_SHOWN] if view is not None else [],
        topics=view.topics[:TOPICS_SHOWN] if view is not None else [],
    )


def _facts(visit: Visit, state: admin.InspectResponse) -> Facts:
    """The proxy answered, so nothing is wrong with its endpoint."""
    host, _, port = visit.console.calls.address.rpartition(":")
    return Facts(
        host=host.strip("[]"),
        port=int(port),
        inspected=state,
        asked_ms=visit.asked_ms,
        answered_ms=visit.asked_ms,
        version=version(),
    )


def sums(view: View) -> dict[str, int]:
    """Of all brokers that answered; `left_out` groups have no part in the lag."""
    figures = [answer.figures for answer in view.brokers]
    return {
        "lag": sum(one.lag for one in view.groups),
        "ready": sum(one.ready for one in view.groups),
        "in_flight": sum(one.in_flight for one in view.groups),
        "waiting": sum(one.delayed + one.blocked for one in view.groups),
        "timers": sum(one.timers for one in figures),
        "half": sum(one.half for one in figures),
        "dead": sum(one.dead for one in figures),
        "left_out": sum(one.groups_left_out for one in figures),
    }


def chart(points: list[Point]) -> str:
    """JSON: seconds, then three rates; null for what is not known."""
    rows = [[one.at_ms // 1000, one.in_s, one.out_s, one.acked_s] for one in points]
    return json.dumps([row for row in rows if row[1] is not None or row[2] is not None])
