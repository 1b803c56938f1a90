"""The official Java client, unmodified, with an access key and its secret."""

from collections.abc import Callable

import pytest
from compat.guarded import GuardedCluster
from compat.session import Session
from compat.signed_checks import SIGNED_CHECKS, ClientKind

pytestmark = pytest.mark.java
KIND = ClientKind(
    grpc_reason=False,
    telemetry_reason=False,  # "Stream is already completed"
)


@pytest.mark.parametrize("check", SIGNED_CHECKS, ids=lambda check: check.__name__)
def test_java_client(
    check: Callable[[Session, GuardedCluster, ClientKind], None],
    guarded: GuardedCluster,
    signed: Session,
) -> None:
    check(signed, guarded, KIND)
