"""Whatever somebody asks who may nothing: it is refused, and nothing at all has changed."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from harness.access import GuardedProxy, context, signature
from harness.broker import QUICK_DISK, EngineDriver
from hypothesis import given
from hypothesis import strategies as st
from property.test_rpc_values import FRAMES_MAX, HOSTILE, INPUTS, Served, check_quiet, statuses
from structlog.testing import capture_logs

from apache.rocketmq.v2 import definition_pb2 as v2
from popmq_admin.v1 import admin_pb2 as admin
from popmq_proxy.core.access.model import Secret, User, UserType
from popmq_proxy.front.rpcs import rpcs
from popmq_proxy.metrics import ProxyMetrics
from popmq_proxy.rpc.access import guard

ROOT, MALLORY = context("root", "root-secret"), context("mallory", "mallory-secret")
NOBODY = [
    MALLORY,
    MALLORY._replace(signature=None),
    MALLORY._replace(signature=signature("root", "guessed-secret")),
    MALLORY._replace(signature=(b"MQv2-HMAC-SHA1 Credential=root, Signature=" + b"0" * 40, b"0")),
    MALLORY._replace(metadata={"x-mq-client-id": "c", "x-mq-namespace": "a%b"}),
    MALLORY._replace(certificate_user="nobody", signature=None),
]
"""A user without a policy, and those who are no user."""


class SecuredServed(Served):
    def __init__(self, folder: Path) -> None:
        self.engine = EngineDriver(folder)
        self.engine.make()
        self.engine.send("a")
        self.proxy = self.guarded = GuardedProxy(self.engine, poll_ms_max=5, broker_wait_ms=0)
        root = User("root", UserType.SUPER, secrets=(Secret("root-secret"),))
        access = self.guarded.methods.access
        self.guarded.run(access.change(lambda table: table.with_user(root)))
        create = admin.CreateUserRequest(username="mallory", secret="mallory-secret")
        self.guarded.ask(ROOT, "CreateUser", create)
        table = rpcs(self.proxy.methods, ProxyMetrics(self.proxy.upstream.sessions))
        self.rpcs = {(rpc.service.rpartition(".")[2], rpc.name): rpc for rpc in table}

    def everything(self) -> tuple[Any, ...]:
        """All that is on disk grows the log; leases and polls are beside it."""
        state = self.engine.broker.state
        leases = sum(len(queue.leases) for queue in state.lease_state.table.queues.values())
        return state.runtime.store.log_end, state.catalog_state.access, leases


@contextmanager
def secured() -> Iterator[SecuredServed]:
    with tempfile.TemporaryDirectory(dir=QUICK_DISK) as folder:
        found = SecuredServed(Path(folder))
        try:
            yield found
        finally:
            found.engine.close()


@pytest.fixture(autouse=True)
def refusals_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SLOWED_S", 0.0)


@pytest.mark.parametrize("name", sorted(INPUTS), ids="/".join)
def test_who_may_nothing_changes_nothing(name: tuple[str, str]) -> None:
    with secured() as server:
        rpc = server.rpcs[name]

        @given(
            st.lists(HOSTILE.of(INPUTS[name]), min_size=1, max_size=FRAMES_MAX),
            st.sampled_from(NOBODY),
        )
        def check(requests: list[Message], who: Any) -> None:
            before = server.everything()
            with capture_logs() as lines:
                for response in server.ask(rpc, requests, who):
                    for status in statuses(response):
                        assert status.code != v2.INTERNAL_SERVER_ERROR, status
            assert server.everything() == before
            check_quiet(lines)

        check()
