"""Group settings are asked for once in a while, and not kept for groups that nobody uses."""

from typing import Any

import pytest

from popmq_common.process import logs
from popmq_common.process.clock import VirtualClock
from popmq_internal.v1 import link_pb2 as link
from popmq_internal.v1 import nameserver_pb2 as ns
from popmq_proxy.clients.nameservers import LocalNameservers
from popmq_proxy.clients.route_cache import RouteCache
from popmq_proxy.config import ProxyConfig
from popmq_proxy.rpc.shared import context
from popmq_proxy.rpc.shared.context import Upstream


class OneBroker:
    def __init__(self) -> None:
        self.asked = 0

    async def call(self, broker: str, call: link.Call, timeout_ms: int) -> link.Reply:
        self.asked += 1
        group = link.GroupConfig(name=call.get_group.group)
        return link.Reply(get_group=link.GetGroupReply(group=group))

    def answers(self, broker: str) -> bool:
        return True

    async def close(self) -> None:
        return


def upstream(brokers: Any) -> Upstream:
    known = [ns.BrokerInfo(name="b", address="h:1")]
    return Upstream(
        config=ProxyConfig(),
        routes=RouteCache(LocalNameservers(lambda _: [], lambda: known)),
        brokers=brokers,
        clock=VirtualClock(),
        log=logs.get("test"),
    )


async def test_t30_ten_thousand_short_lived_groups_leave_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = OneBroker()
    proxy = upstream(broker)
    for i in range(10_000):
        await proxy.group(f"g{i}", "")
        proxy.sessions.seen(f"c{i}", proxy.clock.now_ms())
    proxy.forget_unused()
    assert len(proxy._groups) == 10_000, "they are still fresh"
    assert (await proxy.group("g7", "")).name == "g7"
    assert broker.asked == 10_000
    monkeypatch.setattr(context, "GROUP_KEPT_S", -1.0)
    proxy.clock.advance(proxy.config.session_expiry_ms + 1)  # type: ignore[attr-defined]
    proxy.forget_unused()
    assert not proxy._groups
    assert len(proxy.sessions) == 0
