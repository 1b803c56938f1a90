"""What a client counts: how many, which, in which minute; bounded, and nothing twice."""

from zlib import crc32

from popmq._core.counts import DIGEST_MASK, ERAS_MAX, ROWS_MAX, CountKey, Counts, MessageFate
from popmq._core.messages.ids import MessageIds

NOON_MS = 1_700_000_040_000
MINUTE = NOON_MS // 60_000
SENT, RECEIVED = MessageFate.SENT, MessageFate.RECEIVED


def ids() -> MessageIds:
    return MessageIds(1, 2, NOON_MS // 1000)


def drafted(counts: Counts, made: MessageIds, count: int, now_ms: int = NOON_MS) -> list[str]:
    found = [made.next() for _ in range(count)]
    for one in found:
        counts.drafted(one, now_ms)
    return found


def digest(messages: list[str]) -> int:
    return sum(crc32(one.encode()) for one in messages)


def told(counts: Counts) -> dict[CountKey, tuple[int, int]]:
    report = counts.take(NOON_MS)
    assert report is not None
    return {key: (one.messages, one.digest) for key, one in report.rows.items()}


def handle(popped_ms: int) -> str:
    return f"0 {popped_ms} 60000 1 0 broker-a 0 7 123456 1 abcdef01"


def test_the_order_of_messages_does_not_matter() -> None:
    counts, other = Counts(NOON_MS), Counts(NOON_MS)
    sent = drafted(counts, ids(), 9)
    drafted(other, ids(), 9)
    counts.sends(SENT, "orders", sent)
    other.sends(SENT, "orders", sent[::-1][:4])
    other.sends(SENT, "orders", sent[:5])
    wanted = {CountKey(SENT, "orders", "", MINUTE): (9, digest(sent))}
    assert told(counts) == told(other) == wanted


def test_what_was_sent_counts_in_the_minute_it_was_born_in_however_late_the_answer() -> None:
    counts, made = Counts(NOON_MS), ids()
    early = drafted(counts, made, 3, NOON_MS)
    late = drafted(counts, made, 2, NOON_MS + 60_000)
    back = drafted(counts, made, 1, NOON_MS)  # the clock was set back
    counts.sends(SENT, "t", [late[0], early[1], back[0]])
    counts.sends(MessageFate.UNKNOWN, "t", [early[0]])
    assert told(counts) == {
        CountKey(SENT, "t", "", MINUTE): (2, digest([early[1], back[0]])),
        CountKey(SENT, "t", "", MINUTE + 1): (1, digest(late[:1])),
        CountKey(MessageFate.UNKNOWN, "t", "", MINUTE): (1, digest(early[:1])),
    }


def test_what_was_received_counts_in_the_minute_of_its_handle() -> None:
    counts = Counts(NOON_MS)
    handles = [handle(NOON_MS), handle(NOON_MS + 60_000), handle(NOON_MS + 59_999)]
    counts.deliveries(RECEIVED, "t", "g", ["a", "b", "c"], handles)
    assert told(counts) == {
        CountKey(RECEIVED, "t", "g", MINUTE): (2, digest(["a", "c"])),
        CountKey(RECEIVED, "t", "g", MINUTE + 1): (1, digest(["b"])),
    }


def test_handles_of_another_server_are_told_as_not_counted() -> None:
    counts = Counts(NOON_MS)
    counts.deliveries(RECEIVED, "t", "g", ["a", "b"], ["opaque", "opaque"])
    report = counts.take(NOON_MS)
    assert report is not None
    assert (report.uncounted, report.rows) == (2, {})


def test_reports_are_numbered_and_follow_each_other() -> None:
    counts, made = Counts(NOON_MS), ids()
    assert counts.take(NOON_MS + 1) is None
    counts.sends(SENT, "t", drafted(counts, made, 1))
    first = counts.take(NOON_MS + 60_000)
    counts.sends(SENT, "t", drafted(counts, made, 1))
    second = counts.take(NOON_MS + 120_000)
    last = counts.take(NOON_MS + 130_000, is_last=True)
    assert first is not None
    assert second is not None
    assert last is not None
    assert [one.sequence for one in (first, second, last)] == [0, 1, 2]
    assert (first.from_ms, first.until_ms, second.from_ms) == (
        NOON_MS,
        NOON_MS + 60_000,
        NOON_MS + 60_000,
    )
    assert (second.is_last, last.is_last, last.rows) == (False, True, {})


def test_rows_and_minutes_are_bounded_and_what_has_no_room_is_told() -> None:
    counts, made = Counts(NOON_MS), ids()
    for number in range(ROWS_MAX + 5):
        counts.sends(SENT, f"topic-{number}", drafted(counts, made, 2))
    report = counts.take(NOON_MS)
    assert report is not None
    assert (len(report.rows), report.uncounted) == (ROWS_MAX, 10)
    oldest = drafted(counts, made, 1, NOON_MS - 60_000)
    for minute in range(ERAS_MAX):
        drafted(counts, made, 1, NOON_MS + (minute + 1) * 60_000)
    counts.sends(SENT, "t", oldest)
    assert len(counts._era_ids) == ERAS_MAX
    late = counts.take(NOON_MS)
    assert late is not None
    assert late.rows or late.uncounted == 1


def test_a_digest_fits_a_column_of_64_bits() -> None:
    assert DIGEST_MASK.bit_length() == 63
