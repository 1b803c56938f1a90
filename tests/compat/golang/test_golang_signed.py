"""The official Go client, unmodified, with an access key and its secret."""

from collections.abc import Callable

import pytest
from compat.guarded import GuardedCluster
from compat.session import Session
from compat.signed_checks import SIGNED_CHECKS, ClientKind

pytestmark = pytest.mark.golang
KIND = ClientKind(
    looks_at_acks=False,
)


@pytest.mark.parametrize("check", SIGNED_CHECKS, ids=lambda check: check.__name__)
def test_golang_client(
    check: Callable[[Session, GuardedCluster, ClientKind], None],
    guarded: GuardedCluster,
    signed: Session,
) -> None:
    check(signed, guarded, KIND)
