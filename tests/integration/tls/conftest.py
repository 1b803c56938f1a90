"""Two authorities for all of these tests, one of which nobody trusts, and certificates of both."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from harness.authority import HOUR, Authority
from harness.certificates import Certified

from popmq_common.process import logs


@dataclass(frozen=True)
class Signed:
    """Certificates of services and clients."""

    authority: Authority
    stranger: Authority
    server: Certified
    alice: Certified
    foreign: Certified
    expired: Certified


@pytest.fixture(scope="session")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    authority = Authority(tmp_path_factory.mktemp("tls"))
    stranger = Authority(tmp_path_factory.mktemp("stranger"), "stranger")
    return Signed(
        authority,
        stranger,
        server=authority.signed("server"),
        alice=authority.signed("alice", hosts=()),
        foreign=stranger.signed("alice", hosts=()),
        expired=authority.signed("expired", hosts=(), ends=-HOUR),
    )


@pytest.fixture
def warnings_too() -> Iterator[None]:
    """Else tests log errors alone."""
    logs.configure("warning")
    yield
    logs.configure("error")


@pytest.fixture(autouse=True)
def short_farewells(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC leaves a connection open that nobody uses any more."""
    monkeypatch.setattr("popmq_proxy.app.DRAIN_S", 0.1)


@pytest.fixture
def at_every_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at whenever a connection begins."""
    monkeypatch.setattr("popmq_common.tls.followed.LOOK_S", 0.0)
