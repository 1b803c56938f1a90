"""The rows and their arguments for loadgen."""

import pytest

from compare.failure import BenchFailure
from compare.workloads import ROWS, Length, arguments, chosen, estimate_s, one_message, warmups

LENGTH = Length(seconds=20.0, warmup_s=3.0, messages=500_000)


def flags(name: str) -> dict[str, str]:
    words = arguments(ROWS[name], 4, LENGTH)
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.parametrize(
    ("name", "inflight", "conns"), [("send-1", "1", "1"), ("send-512", "512", "8")]
)
def test_sends_use_at_most_eight_connections(name: str, inflight: str, conns: str) -> None:
    told = flags(name)
    assert (told["-inflight"], told["-conns"], told["-batch"]) == (inflight, conns, "1")
    assert told["-mode"] == "send"
    assert "-group" not in told


def test_every_row_has_its_own_topic_and_kibibyte_bodies() -> None:
    told = flags("send-16")
    assert told["-topic"] == "bench-4"
    assert told["-size"] == "1024"
    assert (told["-warmup"], told["-duration"]) == ("3s", "20s")


def test_the_receive_row_has_a_backlog() -> None:
    told = flags("receive")
    assert (told["-mode"], told["-messages"], told["-group"]) == (
        "consume",
        "500000",
        "bench-group-4",
    )
    assert (told["-receivers"], told["-recv-batch"], told["-ack-batch"]) == ("16", "32", "32")


def test_end_to_end_rows_are_closed_or_of_a_rate_and_drain_in_bounds() -> None:
    assert "-rate" not in flags("e2e")
    assert flags("e2e")["-drain"] == "60s"
    assert flags("e2e-1000")["-rate"] == "1000"
    assert flags("e2e-1000")["-inflight"] == "256"


def test_warmups_share_the_time_and_the_single_message_is_single() -> None:
    for words in warmups(60.0, 1):
        assert words[words.index("-duration") + 1] == "30s"
    assert "-messages" in one_message(0)


def test_rows_come_in_the_tables_order_and_unknown_ones_are_refused() -> None:
    assert [row.name for row in chosen(["e2e", "send-1"])] == ["send-1", "e2e"]
    assert chosen([]) == list(ROWS.values())
    with pytest.raises(BenchFailure, match="send-1000"):
        chosen(["send-1000"])


def test_a_backlog_takes_time() -> None:
    assert estimate_s(ROWS["receive"], LENGTH) > estimate_s(ROWS["e2e"], LENGTH)
