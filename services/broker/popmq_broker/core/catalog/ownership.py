"""Whose a topic or group is: the team that its maker or an operator named, or nobody."""

from popmq_broker.core.catalog.tables import GroupConfig, TopicConfig
from popmq_common.errors import OwnedByOther
from popmq_common.records.names import check_owner
from popmq_internal.v1 import link_pb2 as link


def wanted_owner(
    raw: link.TopicConfig | link.GroupConfig, known: TopicConfig | GroupConfig | None
) -> str:
    """Its owner after the change; empty: nobody. Who says nothing of it leaves it as it is. Raises
    `IllegalOwner`."""
    if not raw.HasField("owner"):
        return "" if known is None else known.owner
    if raw.owner:
        check_owner(raw.owner)
    return raw.owner


def check_create(known: TopicConfig | GroupConfig, wanted: str) -> None:
    """Raises `OwnedByOther` if who creates it anew names an owner that is not its own."""
    if wanted and wanted != known.owner:
        kind = "topic" if isinstance(known, TopicConfig) else "group"
        owner = known.owner or "nobody"
        raise OwnedByOther(kind=kind, name=known.name, owner=owner, wanted=wanted)
