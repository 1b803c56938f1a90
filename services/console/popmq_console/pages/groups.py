"""/groups: the list, with the lag as far as somebody knows it."""

from starlette.responses import Response

from popmq_console.asking.readings import all_groups, inspected
from popmq_console.reading.calls import CallFailed, Failure
from popmq_console.reading.groups import COLUMNS, STATES, group_lines
from popmq_console.reading.sheets import asked, sheet
from popmq_console.visit import Visit


async def groups(visit: Visit) -> Response:
    """Raises `CallFailed`."""
    try:
        found = await all_groups(visit)
    except CallFailed as failed:
        if failed.failure is not Failure.DENIED:
            raise
        return visit.page("by_name.html", area="/groups", what="groups", why=failed.text)
    lines = group_lines(found, await inspected(visit))
    state = visit.parameters.get("state", "")
    shown = [one for one in lines if state in ("", one.state)]
    wanted = asked(visit.parameters, list(COLUMNS), "-lag")
    return visit.page(
        "groups.html",
        area="/groups",
        sheet=sheet(shown, wanted, COLUMNS, lambda one: one.name),
        state=state,
        states={one: sum(line.state == one for line in lines) for one in STATES},
    )
