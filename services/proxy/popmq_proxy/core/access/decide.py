"""May this user do that? One pure function.

    user is Super                        → yes
    no entry of the Custom policy fits   → those of Default are asked
    no entry fits                        → no
    else                                 → the first of the entries that fit decides, in this order:
        literal, then prefixed (the longer first), then any of the type, then any resource;
        of two that are alike, Deny first

An entry fits when its resource, one of its actions and one of its addresses do. A Namespace fits
topics and groups whose stored name begins with `namespace%`, and counts as that prefix.

Source: RocketMQ DefaultAuthorizationProvider and AuthorizationContext; the order as its issues
9462, 9540 and 9785 mended it.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple

from popmq_common.records.names import DEAD_LETTER_PREFIX, RETRY_PREFIX
from popmq_proxy.core.access.model import (
    ANY_NAME,
    Acl,
    Action,
    Decision,
    Entry,
    Need,
    Network,
    Pattern,
    PolicyType,
    Resource,
    ResourceType,
    User,
    UserType,
    network,
)

SEPARATOR: Final = "%"
"""Between a namespace and a name, as brokers store it."""
_IN_NAMESPACES: Final = (ResourceType.TOPIC, ResourceType.GROUP)
_NETWORKS_KEPT: Final = 4_096


class AccessVerdict(NamedTuple):
    allowed: bool
    reason: str
    policy: PolicyType | None = None
    entry: Entry | None = None
    """What decided; None: no entry fits, or none was asked."""


SUPER: Final = AccessVerdict(True, "a Super user may do everything")
NO_ENTRY: Final = AccessVerdict(False, "no matched policies")


def decide(user: User, acl: Acl | None, need: Need, address: str) -> AccessVerdict:
    """`address`: the client's IP address."""
    if user.type is UserType.SUPER:
        return SUPER
    if acl is None:
        return NO_ENTRY
    for policy in PolicyType:
        fitting = [one for one in acl.entries(policy) if fits(one, need, address)]
        if fitting:
            first = min(fitting, key=_order)
            allowed = first.decision is Decision.ALLOW
            return AccessVerdict(
                allowed, f"{first.decision.value} of {first.resource}", policy, first
            )
    return NO_ENTRY


def fits(entry: Entry, need: Need, address: str) -> bool:
    return (
        _fits_resource(entry.resource, need)
        and _fits_action(entry.actions, need.actions)
        and _fits_source(entry.source_ips, address)
    )


def _fits_resource(resource: Resource, need: Need) -> bool:
    if resource.type is ResourceType.ANY:
        return True
    name = _bare(need)
    if resource.type is ResourceType.NAMESPACE and need.type in _IN_NAMESPACES:
        namespace, separator, _ = name.partition(SEPARATOR)
        return bool(separator) and _fits_name(resource, namespace)
    return resource.type is need.type and _fits_name(resource, name)


def _bare(need: Need) -> str:
    """A group's name without the prefix of its retry topic or dead letters."""
    if need.type is not ResourceType.GROUP:
        return need.name
    return need.name.removeprefix(RETRY_PREFIX).removeprefix(DEAD_LETTER_PREFIX)


def _fits_name(resource: Resource, name: str) -> bool:
    if resource.pattern is Pattern.ANY:
        return True
    if name == ANY_NAME:
        return False
    if resource.pattern is Pattern.LITERAL:
        return resource.name == name
    return name.startswith(resource.name)


def _fits_action(allowed: frozenset[Action], asked: Iterable[Action]) -> bool:
    if Action.ALL in allowed:
        return True
    return any(one is Action.ANY or one in allowed for one in asked)


def _fits_source(source_ips: tuple[str, ...], address: str) -> bool:
    if not source_ips:
        return True
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(ip, "ipv4_mapped", None)
    return any((mapped or ip) in one for one in _networks(source_ips))


@lru_cache(_NETWORKS_KEPT)
def _networks(source_ips: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(network(text) for text in source_ips)


def _order(entry: Entry) -> tuple[bool, int, int, bool]:
    """The smallest is asked first."""
    resource = entry.resource
    pattern, length = resource.pattern, len(resource.name)
    if resource.type is ResourceType.NAMESPACE and pattern is Pattern.LITERAL:
        pattern, length = Pattern.PREFIXED, length + len(SEPARATOR)
    is_any = resource.type is ResourceType.ANY
    return is_any, pattern.value, -length, entry.decision is not Decision.DENY
