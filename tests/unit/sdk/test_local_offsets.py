"""RocketMQ's `offsets.json`: written, read, and what a crash or an editor may leave of it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from popmq._core.local_offsets import LocalQueue, NoOffsets, decode, encode
from popmq.pull.assignment import Queue
from popmq.pull.offset_store import FileOffsetStore, OffsetFileDamaged

ROCKETMQ = """{
\t"offsetTable":{{
\t\t\t"brokerName":"broker-a",
\t\t\t"queueId":3,
\t\t\t"topic":"TopicTest"
\t\t}:1234,{
\t\t\t"queueId":0,
\t\t\t"brokerName":"broker-b",
\t\t\t"topic":"TopicTest"
\t\t}:5
\t}
}"""


def test_the_bytes_and_how_rocketmq_prints_them() -> None:
    offsets = {LocalQueue("t", "broker-a", 0): 42}
    assert encode(offsets) == (
        '{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"t"}:42}}\n'
    )
    assert decode(ROCKETMQ) == {
        LocalQueue("TopicTest", "broker-a", 3): 1234,
        LocalQueue("TopicTest", "broker-b", 0): 5,
    }
    assert decode('{"offsetTable":{}}') == {}


names = st.text(st.characters(codec="utf-8", exclude_characters="{}"), min_size=1, max_size=8)


@given(
    st.dictionaries(
        st.builds(LocalQueue, names, names, st.integers(0, 99)), st.integers(0, 2**62), max_size=5
    )
)
def test_what_was_written_is_read(offsets: dict[LocalQueue, int]) -> None:
    assert decode(encode(offsets)) == offsets


@pytest.mark.parametrize(
    "text", ["", "{}", '{"offsetTable":{}', '{"offsetTable":{{"topic":"t"}:1}}', ROCKETMQ[:-9]]
)
def test_anything_else_is_told(text: str) -> None:
    with pytest.raises(NoOffsets):
        decode(text)


async def test_the_file_before_stands_in_for_a_damaged_one(tmp_path: Path) -> None:
    path, queue = tmp_path / "group" / "offsets.json", Queue("broker-a", 0)
    store = FileOffsetStore(path, "t")
    assert await store.load(queue) is None
    await store.save({queue: 1})
    await store.save({queue: 2})
    assert await FileOffsetStore(path, "t").load(queue) == 2
    path.write_text("half")
    assert await FileOffsetStore(path, "t").load(queue) == 1
    path.unlink()
    assert await FileOffsetStore(path, "t").load(queue) == 1
    path.with_suffix(".json.bak").write_text("")
    with pytest.raises(OffsetFileDamaged, match="remove the files"):
        await FileOffsetStore(path, "t").load(queue)


async def test_two_topics_share_a_file(tmp_path: Path) -> None:
    path, queue = tmp_path / "offsets.json", Queue("broker-a", 0)
    await FileOffsetStore(path, "t").save({queue: 1})
    await FileOffsetStore(path, "u").save({queue: 2})
    assert await FileOffsetStore(path, "t").load(queue) == 1
