"""Every address, and what answers it."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from starlette.responses import Response

from popmq_console.pages import (
    dead_letters,
    group,
    groups,
    later,
    login,
    message,
    overview,
    redrive,
    reset,
    search,
    send,
    topic,
    topics,
)
from popmq_console.pages.administration import access, audit, cluster
from popmq_console.visit import Visit

Screen = Callable[[Visit], Awaitable[Response]]


class Route(NamedTuple):
    method: str
    path: str
    screen: Screen
    is_open: bool = False
    """Also for those who are not logged in."""
    live_s: float = 0.0
    """How often its live part is read while somebody looks; 0: it has none."""


SOON_S: Final = 5.0
SLOW_S: Final = 30.0
"""Of what brokers have to search."""
ROUTES: Final = [
    Route("GET", "/", overview.overview, live_s=SOON_S),
    Route("GET", "/login", login.login_page, is_open=True),
    Route("POST", "/login", login.login, is_open=True),
    Route("POST", "/logout", login.logout, is_open=True),
    Route("GET", "/search", search.search),
    Route("GET", "/topics", topics.topics, live_s=SOON_S),
    Route("POST", "/topics", topics.create_topic),
    Route("GET", "/topics/{name}", topic.topic),
    Route("POST", "/topics/{name}/send", send.send),
    Route("GET", "/topics/{name}/delete", topic.delete_topic_page),
    Route("POST", "/topics/{name}/delete", topic.delete_topic),
    Route("GET", "/groups", groups.groups, live_s=SOON_S),
    Route("GET", "/groups/{name}", group.group, live_s=SOON_S),
    Route("POST", "/groups/{name}", group.change_group),
    Route("GET", "/groups/{name}/reset", reset.reset_page),
    Route("POST", "/groups/{name}/reset", reset.reset),
    Route("GET", "/groups/{name}/delete", group.delete_group_page),
    Route("POST", "/groups/{name}/delete", group.delete_group),
    Route("GET", "/message", message.message, live_s=SLOW_S),
    Route("GET", "/dead-letters", dead_letters.dead_letters, live_s=SOON_S),
    Route("GET", "/dead-letters/{name}", dead_letters.letters_of_group),
    Route("GET", "/dead-letters/{name}/export", dead_letters.export_letters),
    Route("POST", "/dead-letters/{name}/redrive-preview", redrive.redrive_preview),
    Route("POST", "/dead-letters/{name}/redrive", redrive.redrive),
    Route("GET", "/dead-letters/{name}/purge", redrive.purge_preview),
    Route("POST", "/dead-letters/{name}/purge", redrive.purge),
    Route("GET", "/later", later.later, live_s=SOON_S),
    Route("GET", "/later/settle", later.settle_page),
    Route("POST", "/later/settle", later.settle),
    Route("GET", "/recall", send.recall_page),
    Route("POST", "/recall", send.recall),
    Route("GET", "/cluster", cluster.cluster, live_s=SOON_S),
    Route("GET", "/cluster/permission", cluster.permission_page),
    Route("POST", "/cluster/permission", cluster.set_permission),
    Route("GET", "/audit", audit.audit),
    Route("GET", "/access", access.access),
    Route("POST", "/access/users", access.create_user),
    Route("GET", "/access/user/{name}", access.user_page),
    Route("POST", "/access/user/{how}", access.change_user),
    Route("POST", "/access/entry", access.put_entry),
    Route("POST", "/access/entry/delete", access.delete_entry),
]
