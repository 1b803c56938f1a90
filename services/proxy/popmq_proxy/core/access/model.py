"""Users, policies, resources and actions, as RocketMQ's ACL 2.0 has them.

Differs from RocketMQ: a user has up to two keys at a time, so that they can be replaced without an
interruption; a Namespace is a resource, see `Resource.names`.
"""

from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, Self, TypeVar

from popmq_common.errors import IllegalAccessEntry, IllegalUser

NAME_MAX: Final = 255
SECRETS_MAX: Final = 2
SECRET_CHARS_MIN: Final = 8
Network = IPv4Network | IPv6Network


class UserType(Enum):
    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(Enum):
    ENABLED = "enable"
    DISABLED = "disable"


class ResourceType(Enum):
    """In the order in which entries are asked that fit otherwise alike."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    ANY = "*"


class Pattern(Enum):
    """In the order in which entries are asked."""

    LITERAL = 0
    PREFIXED = 1
    ANY = 2


class Action(Enum):
    ALL = "All"
    ANY = "Any"
    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"


class Decision(Enum):
    ALLOW = "Allow"
    DENY = "Deny"


class PolicyType(Enum):
    CUSTOM = "Custom"
    DEFAULT = "Default"


_Word = TypeVar("_Word", bound=Enum)


def word(kind: type[_Word], text: str) -> _Word:
    """One of its values, in any case. Raises `IllegalAccessEntry`."""
    for one in kind:
        if str(one.value).lower() == text.strip().lower():
            return one
    known = ", ".join(str(one.value) for one in kind)
    raise IllegalAccessEntry(reason=f"{text!r} is not one of {known}")


@dataclass(frozen=True, slots=True)
class Secret:
    key: str = field(repr=False)
    until_ms: int = 0
    """0: without an end."""


@dataclass(frozen=True, slots=True)
class User:
    username: str
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLED
    secrets: tuple[Secret, ...] = ()
    """The newest first. None: the user shows a certificate."""

    def secrets_at(self, now_ms: int) -> tuple[Secret, ...]:
        return tuple(one for one in self.secrets if not one.until_ms or now_ms < one.until_ms)


@dataclass(frozen=True, slots=True)
class Resource:
    type: ResourceType
    pattern: Pattern
    name: str = ""
    """Of a literal; what a prefixed one begins with."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`*`, `Topic:*`, `Topic:abc*`, `Topic:abc`. Raises `IllegalAccessEntry`."""
        if text.strip() == "*":
            return cls(ResourceType.ANY, Pattern.ANY)
        kind, colon, name = text.strip().partition(":")
        if not colon or not name or len(name) > NAME_MAX:
            known = "*, Topic:abc, Topic:abc*, Topic:*; Group, Cluster and Namespace likewise"
            raise IllegalAccessEntry(reason=f"resource {text!r} is not one of {known}")
        found = word(ResourceType, kind)
        if found is ResourceType.ANY:
            raise IllegalAccessEntry(reason=f"resource {text!r}: write * alone for any resource")
        if name == "*":
            return cls(found, Pattern.ANY)
        prefix, star, _ = name.partition("*")
        if star:
            return cls(found, Pattern.PREFIXED, prefix)
        return cls(found, Pattern.LITERAL, name)

    def __str__(self) -> str:
        if self.type is ResourceType.ANY:
            return "*"
        return f"{self.type.value}:{self.name}{'' if self.pattern is Pattern.LITERAL else '*'}"


@dataclass(frozen=True, slots=True)
class Entry:
    resource: Resource
    actions: frozenset[Action]
    decision: Decision
    source_ips: tuple[str, ...] = ()
    """Addresses or CIDR ranges, as they were written; none: from anywhere."""

    @classmethod
    def of(cls, resource: str, actions: list[str], decision: str, source_ips: list[str]) -> Self:
        """Raises `IllegalAccessEntry`."""
        asked = frozenset(word(Action, one) for one in actions)
        if not asked or Action.ANY in asked:
            raise IllegalAccessEntry(reason="an entry names its actions, or All; it cannot say Any")
        for text in source_ips:
            network(text)
        ips = tuple(text.strip() for text in source_ips)
        return cls(Resource.parse(resource), asked, word(Decision, decision), ips)


def network(text: str) -> Network:
    """Raises `IllegalAccessEntry`."""
    try:
        return ip_network(text.strip(), strict=False)
    except ValueError as wrong:
        reason = f"source {text!r} is no address and no CIDR range"
        raise IllegalAccessEntry(reason=reason) from wrong


@dataclass(frozen=True, slots=True)
class Acl:
    """Of one user: entries by policy, in the order in which they were written."""

    username: str
    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()

    def entries(self, policy: PolicyType) -> tuple[Entry, ...]:
        return self.custom if policy is PolicyType.CUSTOM else self.default


@dataclass(frozen=True, slots=True)
class Need:
    """What a request needs: one of the actions on one resource."""

    type: ResourceType
    name: str
    """`ANY_NAME`: all there are."""
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        return f"{self.type.value}:{self.name}"


ANY_NAME: Final = "*"


def check_username(name: str) -> str:
    """Raises `IllegalUser`."""
    if not name or len(name) > NAME_MAX:
        raise IllegalUser(user=name, reason=f"1 to {NAME_MAX} characters are allowed")
    if any(c.isspace() or not c.isprintable() or c in "/,=:*%" for c in name):
        reason = "blanks and the characters / , = : * % are not allowed"
        raise IllegalUser(user=name, reason=reason)
    return name


def subject_of(username: str) -> str:
    return f"User:{username}"


def username_of(subject: str) -> str:
    """`User:alice`, or the name alone. Raises `IllegalUser`."""
    kind, colon, name = subject.partition(":")
    if not colon:
        return check_username(subject)
    if kind.lower() != "user":
        raise IllegalUser(user=subject, reason="a subject is written User:NAME")
    return check_username(name)
