"""Two brokers, a proxy that asks who sends, and root, who may do everything."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.access import GuardedProxy, context
from harness.broker import EngineDriver

from popmq_proxy.core.access.model import Secret, User, UserType
from popmq_proxy.rpc.access import guard

ROOT = context("root", "root-secret")


class TwoBrokers:
    def __init__(self, folder: Path) -> None:
        self.a = EngineDriver(folder / "a", name="a")
        self.b = EngineDriver(folder / "b", like=self.a, name="b")
        self.away: set[str] = set()
        self.proxy = GuardedProxy(self.a, self.b, away=self.away)
        self.other = GuardedProxy(self.a, self.b)

    def begin(self) -> None:
        """There is a first user."""
        root = User("root", UserType.SUPER, secrets=(Secret("root-secret"),))
        self.proxy.run(self.proxy.methods.access.change(lambda table: table.with_user(root)))
        self.other.refresh()

    def close(self) -> None:
        self.b.close()
        self.a.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path)
    made.begin()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def refusals_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SLOWED_S", 0.001)
