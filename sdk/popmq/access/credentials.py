"""Who a client is: an access key and its secret, given, or read from the environment or a file.

POPMQ_ACCESS_KEY, POPMQ_SECRET_KEY, POPMQ_SESSION_TOKEN
POPMQ_CREDENTIALS_FILE               for what these do not say
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from popmq._core.credentials_file import parsed
from popmq._core.signature import SignedHeaders
from popmq.access.private_file import read_private
from popmq.errors import UnusableSettings

ACCESS_KEY_VARIABLE: Final = "POPMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE: Final = "POPMQ_SECRET_KEY"
SESSION_TOKEN_VARIABLE: Final = "POPMQ_SESSION_TOKEN"
CREDENTIALS_FILE_VARIABLE: Final = "POPMQ_CREDENTIALS_FILE"
ENDS_A_KEY: Final = ",/ "
"""A server reads the access key as far as there."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Each request is signed with the secret, which is never sent. Raises `UnusableSettings` for
    an access key or a token that no request could carry."""

    access_key: str
    """The user's name."""
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    """Sent as it is."""

    def __post_init__(self) -> None:
        if not self.access_key or not self.secret_key:
            missing = "secret" if self.access_key else "access"
            raise UnusableSettings(f"the {missing} key of the credentials is empty")
        if not _is_plain(self.access_key) or set(self.access_key) & set(ENDS_A_KEY):
            text = f"the access key {self.access_key!r} has a character that it cannot have"
            raise UnusableSettings(f"{text}: use printable ASCII without comma, slash and space")
        if self.session_token is not None and not _is_plain(self.session_token):
            raise UnusableSettings("the session token has characters that are not printable ASCII")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Of a file that only its owner can read: JSON with accessKey, secretKey and perhaps
        sessionToken, or lines POPMQ_ACCESS_KEY=… as of an environment. Raises
        `UnusableSettings`."""
        found = part_of_file(path)
        if not found.access_key or not found.secret_key:
            missing = "secretKey" if found.access_key else "accessKey"
            raise UnusableSettings(f"{path} has no {missing}")
        return cls(found.access_key, found.secret_key, found.session_token or None)

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] | None = None) -> "Credentials | None":
        """As a `Client` without credentials finds them; None: there are none. Raises
        `UnusableSettings`."""
        return chosen(environment_parts(os.environ if variables is None else variables))


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def signed_headers(credentials: Credentials | None) -> SignedHeaders:
    if credentials is None:
        return SignedHeaders()
    token = credentials.session_token or ""
    return SignedHeaders(credentials.access_key, credentials.secret_key, token)


class CredentialsPart(NamedTuple):
    """What one source says; empty: it does not say it."""

    access_key: str = ""
    secret_key: str = ""
    session_token: str = ""


Parts = Iterable[Callable[[], CredentialsPart]]
"""Sources, the strongest first; a later one is only read if it is needed."""


def part_of_file(path: str | os.PathLike[str]) -> CredentialsPart:
    """Raises `UnusableSettings`."""
    try:
        found = parsed(read_private(path))
    except ValueError as wrong:
        raise UnusableSettings(f"{path} has no credentials: {wrong}") from wrong
    return CredentialsPart(
        found.get("accessKey", ""), found.get("secretKey", ""), found.get("sessionToken", "")
    )


def environment_parts(variables: Mapping[str, str]) -> list[Callable[[], CredentialsPart]]:
    names = ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE, SESSION_TOKEN_VARIABLE
    said = CredentialsPart(*(variables.get(name, "") for name in names))
    parts: list[Callable[[], CredentialsPart]] = [lambda: said]
    if path := variables.get(CREDENTIALS_FILE_VARIABLE, ""):
        parts.append(lambda: part_of_file(path))
    return parts


def chosen(parts: Parts) -> Credentials | None:
    """The strongest access key, and the strongest secret of that key: one source may give the one
    and a later source the other, but a secret never goes with the key of another user. None: no
    source says anything. Raises `UnusableSettings` for a key without the other."""
    access_key = secret_key = session_token = ""
    for read in parts:
        part = read()
        if part.access_key and access_key and part.access_key != access_key:
            continue
        access_key = access_key or part.access_key
        if part.secret_key and not secret_key:
            secret_key, session_token = part.secret_key, part.session_token
        if access_key and secret_key:
            return Credentials(access_key, secret_key, session_token or None)
    if access_key:
        sources = f"{SECRET_KEY_VARIABLE}, {CREDENTIALS_FILE_VARIABLE}, or --secret-key-file"
        text = f"there is no secret key for the user {access_key!r}"
        raise UnusableSettings(f"{text}; it is read from {sources} of a command")
    if secret_key:
        text = f"there is a secret key and no user: set {ACCESS_KEY_VARIABLE}"
        raise UnusableSettings(f"{text}, or give a command --user")
    return None
