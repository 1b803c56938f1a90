"""The official Rust client, unmodified, with an access key and its secret, and over TLS."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from compat.guarded import GuardedCluster
from compat.session import ClientRefusal, Session, session
from compat.signed_checks import (
    SIGNED_CHECKS,
    ClientKind,
    Scene,
    check_push_revoked,
    check_strangers,
    check_what_is_allowed,
)
from harness.authority import Authority

pytestmark = pytest.mark.rust
KIND = ClientKind(
    starts_without_right=True, pushes=False, changes=False, recalls=False, goodbye_reason=True
)
CHECKS = [check for check in SIGNED_CHECKS if check is not check_push_revoked]
Check = Callable[[Session, GuardedCluster, ClientKind], None]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_rust_client(check: Check, guarded: GuardedCluster, signed: Session) -> None:
    check(signed, guarded, KIND)


@pytest.mark.parametrize(
    "check", [check_what_is_allowed, check_strangers], ids=lambda check: check.__name__
)
def test_rust_client_with_tls(
    check: Check, guarded_with_tls: GuardedCluster, signed_with_tls: Session
) -> None:
    check(signed_with_tls, guarded_with_tls, KIND)


def test_a_certificate_that_is_not_trusted_is_refused_at_the_start(
    binary: Path, guarded_with_tls: GuardedCluster, tmp_path: Path
) -> None:
    """It checks certificates, as no other official client does unless it is told to."""
    stranger = Authority(tmp_path, "stranger")
    env = {**os.environ, "SSL_CERT_FILE": str(stranger.pem)}
    with session([str(binary), "tls"], tmp_path / "signed.log", env) as distrusting:
        scene = Scene(distrusting, guarded_with_tls)
        guarded_with_tls.user(scene.user, *scene.everything)
        with pytest.raises(ClientRefusal, match="Failed to create session"):
            scene.start("producer")
