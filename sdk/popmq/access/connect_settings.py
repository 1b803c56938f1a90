"""How a command connects: its options, then the environment, then a context."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from popmq.access.contexts import DEFAULT, SavedContext, read_contexts
from popmq.access.credentials import (
    SECRET_KEY_VARIABLE,
    Credentials,
    CredentialsPart,
    chosen,
    environment_parts,
)
from popmq.access.private_file import read_private
from popmq.errors import UnusableSettings

TLS_CERT_VARIABLE: Final = "POPMQ_TLS_CERT"
TLS_KEY_VARIABLE: Final = "POPMQ_TLS_KEY"
ACCESS_KEY_HELP: Final = "Sign requests as this user. Its secret is given by a file or a variable."
SECRET_KEY_FILE_HELP: Final = (
    f"File with the user's secret key, which only you can read; or set {SECRET_KEY_VARIABLE}."
)
TLS_CERT_HELP: Final = "Connect with TLS, and show the certificate in this PEM file."
TLS_KEY_HELP: Final = "The key of that certificate, a PEM file."
CONTEXT_HELP: Final = "Connect as this context says; see popmq context."


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSettings:
    """What options say, or the variables of the same options; empty: nothing."""

    endpoint: str = ""
    context: str = ""
    access_key: str = ""
    secret_key_file: str = ""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """What is used; empty: nobody has said it."""

    endpoint: str
    context: str
    """The name of the one that was used."""
    credentials: Credentials | None
    tls_ca: str
    tls_cert: str
    tls_key: str

    @property
    def has_tls_files(self) -> bool:
        return bool(self.tls_ca or self.tls_cert or self.tls_key)

    def tls_files(self) -> dict[str, Any]:
        """Arguments of `Tls.from_files`."""
        paths = {"ca": self.tls_ca, "certificate": self.tls_cert, "key": self.tls_key}
        return {name: path or None for name, path in paths.items()}


def connect_settings(
    asked: AskedSettings,
    variables: Mapping[str, str] | None = None,
    *,
    with_current: bool = True,
) -> ConnectSettings:
    """`with_current`: the current context is used if no other is named. Where an endpoint is given,
    nothing of it is used: no other server gets a signature that is meant for its server. Raises
    `UnusableSettings`."""
    variables = os.environ if variables is None else variables
    name, saved = used_context(asked, variables, with_current=with_current)
    shows = asked if asked.tls_cert or asked.tls_key else saved
    return ConnectSettings(
        endpoint=asked.endpoint or saved.endpoint,
        context=name,
        credentials=_credentials(asked, variables, saved),
        tls_ca=asked.tls_ca or saved.tls_ca,
        tls_cert=shows.tls_cert,
        tls_key=shows.tls_key,
    )


def used_context(
    asked: AskedSettings, variables: Mapping[str, str], *, with_current: bool = True
) -> tuple[str, SavedContext]:
    """Its name, and what it says; no name: none is used. Raises `UnusableSettings`."""
    if asked.context == DEFAULT or not (asked.context or (with_current and not asked.endpoint)):
        return "", SavedContext()
    contexts = read_contexts(variables)
    name = asked.context or contexts.current
    return ("", SavedContext()) if name == DEFAULT else (name, contexts.get(name))


def _credentials(
    asked: AskedSettings, variables: Mapping[str, str], saved: SavedContext
) -> Credentials | None:
    in_context = CredentialsPart(saved.access_key, saved.secret_key, saved.session_token)

    def options() -> CredentialsPart:
        secret = secret_key_of(asked.secret_key_file) if asked.secret_key_file else ""
        return CredentialsPart(asked.access_key, secret)

    parts: list[Callable[[], CredentialsPart]] = [options, *environment_parts(variables)]
    return chosen([*parts, lambda: in_context])


def secret_key_of(path: str | Path) -> str:
    """The first line of a file that only its owner can read. Raises `UnusableSettings`."""
    secret, *more = read_private(path).strip().splitlines() or [""]
    if not secret or more:
        raise UnusableSettings(f"{path} is not one line, the secret key")
    return secret
