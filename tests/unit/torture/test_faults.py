"""Are the faults those of the seed, and does a majority of each group live?"""

from itertools import islice
from pathlib import Path

import pytest
from torture import history
from torture.faults import ALONE, PRIMARY, Lane, lanes, plan
from torture.history import Call, Fault, ReplicaLog, Run, Stored, Trouble
from torture.replica_logs import LogBytes

SERVERS = ["nameserver", "a1", "a2", "a3", "proxy-1", "proxy-2", "etcd-0"]
LANES = lanes(["broker-a", "broker-b"], SERVERS)


def test_a_seed_repeats_its_faults_and_another_has_others() -> None:
    for lane in LANES:
        some = list(islice(plan(7, lane), 20))
        assert some == list(islice(plan(7, lane), 20))
        assert some != list(islice(plan(8, lane), 20))


def test_every_kind_of_fault_comes_within_its_bounds() -> None:
    for lane in LANES:
        seen = set()
        for planned in islice(plan(1, lane), 500):
            seen.add(planned.kind)
            least_s, most_s = planned.kind.holds_s
            assert least_s <= planned.hold_s <= most_s
            assert lane.gaps_s[0] <= planned.gap_s <= lane.gaps_s[1]
        assert seen == set(lane.kinds)


def test_a_broker_has_one_lane_in_which_its_replicas_die() -> None:
    """So two of three live."""
    ends = [lane for lane in LANES if {"kill", "wipe"} & {kind.name for kind in lane.kinds}]
    assert sorted(lane.broker for lane in ends if lane.broker) == ["broker-a", "broker-b"]
    struck = {name for lane in ends for name in lane.targets}
    assert struck == {"nameserver", "proxy-1", "proxy-2", "etcd-0"}


def test_a_register_without_servers_has_no_lane() -> None:
    assert "register" not in [lane.name for lane in lanes(["broker-a"], SERVERS[:-1])]


def test_lanes_can_be_chosen() -> None:
    found = lanes(["broker-a", "broker-b"], SERVERS, ["links", "proxies"])
    assert [lane.name for lane in found] == ["broker-a/links", "broker-b/links", "proxies"]


def test_a_choice_is_one_of_those_that_there_are() -> None:
    lane = Lane("one", LANES[0].kinds, (0, 1))
    found = {planned.one_of(["x", "y"]) for planned in islice(plan(1, lane), 50)}
    assert found == {"x", "y"}


ENTRIES: list[history.Entry] = [
    Run(seed=7, began_s=1.0, settings={"minutes": 1}),
    Call(kind="sdk", name="send", began_s=1.0, ended_s=1.5, body="sdk/n0/0", commit=True),
    Fault(name="kill", target="a1", role="primary", broker="b", began_s=1.0, healed_s=2.0),
    Stored(broker="b", topic="t", queue_id=1, queue_offset=2, body="sdk/n0/0", message_id="7"),
    ReplicaLog(
        broker="b",
        replica="a1",
        log_start=0,
        log_end=9,
        commit_point=9,
        compared_end=9,
        differs_at=None,
        damage=("one",),
    ),
    Trouble(at_s=1.0, text="it ended"),
]


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with open(path, "w") as out:
        history.write(out, ENTRIES)
    assert history.read(path) == history.of(ENTRIES)


@pytest.mark.parametrize("line", ["{", "{}", '{"what": "x"}', '{"what": "call", "y": 1}', "7"])
def test_a_line_that_is_none_of_a_history_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match="line 1 is no part of a history"):
        history.read(path)


def test_a_client_that_was_killed_leaves_half_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events"
    whole = '{"what": "send", "began_s": 1, "ended_s": 2, "body": "sdk/n0/0", "error": ""}\n'
    path.write_text(whole + whole[:20])
    (call,) = history.calls_of("sdk", path)
    assert (call.name, call.kind, call.line, call.number) == ("send", "sdk", "sdk/n0", 0)


def log(folder: Path, *files: tuple[int, bytes]) -> LogBytes:
    (folder / "commitlog").mkdir(parents=True)
    for offset, data in files:
        (folder / "commitlog" / f"{offset:020}").write_bytes(data)
    return LogBytes(folder)


def test_logs_are_compared_to_the_byte(tmp_path: Path) -> None:
    ours = log(tmp_path / "a", (0, b"abcd"), (4, b"efgh"))
    assert ours.differs_at(log(tmp_path / "b", (0, b"abcd"), (4, b"efgh")), 8) is None
    changed = log(tmp_path / "c", (0, b"abcd"), (4, b"eXgh"))
    assert ours.differs_at(changed, 8) == 5
    assert changed.differs_at(ours, 5) is None, "what is behind the end does not count"
    assert ours.differs_at(log(tmp_path / "d", (0, b"abcd")), 8) == 4, "a file is missing"
    assert ours.differs_at(log(tmp_path / "e", (4, b"efgh")), 8) is None, "retention deleted one"


@pytest.mark.parametrize("name", ALONE)
def test_fail_overs_alone_strike_primaries_alone(name: str) -> None:
    found = lanes(["broker-a", "broker-b"], SERVERS, [name])
    assert [lane.broker for lane in found] == ["broker-a", "broker-b"]
    assert {kind.role for lane in found for kind in lane.kinds} == {PRIMARY}
