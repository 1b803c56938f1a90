"""The official Python client, unmodified, with an access key and its secret."""

from collections.abc import Callable

import pytest
from compat.guarded import GuardedCluster
from compat.session import Session
from compat.signed_checks import SIGNED_CHECKS, ClientKind

KIND = ClientKind(
    strangers_reason=False,  # "failed to fetch topic:… route."
    starts_without_right=True,
    refused_per_s_max=8,
)


@pytest.mark.parametrize("check", SIGNED_CHECKS, ids=lambda check: check.__name__)
def test_python_client(
    check: Callable[[Session, GuardedCluster, ClientKind], None],
    guarded: GuardedCluster,
    signed: Session,
) -> None:
    check(signed, guarded, KIND)
