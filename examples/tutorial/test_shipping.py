# test_shipping.py
import asyncio
from pathlib import Path

import pytest

import shipping
from popmq.testing import PopmqBroker

ORDER = '{"number": "7", "item": "cup"}'


def stock(*items: str) -> None:
    Path("stock.txt").write_text("\n".join(items))


@pytest.fixture(autouse=True)
def no_cups(popmq_broker: PopmqBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stock("tea")
    shipping.app.endpoint = popmq_broker.endpoint
    popmq_broker.send("orders", ORDER)


def test_it_is_shipped_when_the_cups_have_come(
    popmq_broker: PopmqBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run() -> None:
        async with shipping.app:
            await popmq_broker.drained()  # the first attempt has failed
            stock("tea", "cup")
            popmq_broker.advance(1)
            await popmq_broker.drained()

    asyncio.run(run())
    assert capsys.readouterr().out == "shipped order 7\n"
    popmq_broker.assert_no_dead_letters("shipping")


def test_it_is_a_dead_letter_after_three_attempts(popmq_broker: PopmqBroker) -> None:
    async def run() -> None:
        async with shipping.app:
            for delay_s in (1, 2, 0):
                await popmq_broker.drained()
                popmq_broker.advance(delay_s)

    asyncio.run(run())
    letter = popmq_broker.assert_dead_letter("shipping", reason="no cup in stock")
    assert letter.attempts == 3
