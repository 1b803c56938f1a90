"""`popmq limit` against a real server, as a user types it."""

from integration.test_cli_access import at, run, told

__all__ = ["at"]


async def test_limits_are_set_listed_and_taken_away(at: str) -> None:
    assert "There are no limits" in (await run("limit list")).stdout
    done = await run("limit set User:alice --messages 100 --receives 20")
    assert done.stdout == "User:alice has these limits now.\n"
    await run("limit set topic:orders --bytes 5000000000")
    await run("limit set User:bob --calls 50 --connections 7 --creations 12")
    listed = (await run("limit list")).stdout.splitlines()
    assert [line.split() for line in listed[1:]] == [
        ["Topic:orders", "-", "5000000000", "-", "-", "-", "-"],
        ["User:alice", "100", "-", "20", "-", "-", "-"],
        ["User:bob", "-", "-", "-", "50", "7", "12"],
    ]
    (_, alice, bob) = (await told("limit list"))["limits"]
    assert alice == {
        "subject": "User:alice",
        "messagesPerS": 100,
        "bytesPerS": 0,
        "waitingReceives": 20,
        "calls": 0,
        "connections": 0,
        "creationsPerH": 0,
    }
    assert (bob["calls"], bob["connections"], bob["creationsPerH"]) == (50, 7, 12)
    assert "no limits of its own" in (await run("limit set User:alice")).stdout
    assert "no limits of its own" in (await run("limit set User:bob")).stdout
    assert len((await told("limit list"))["limits"]) == 1
    refused = await run("limit set Topic:orders --connections 1", code=1)
    assert "calls and connections are of users and clients" in refused.stderr
    refused = await run("limit set alice --messages 1", code=1)
    assert "User:NAME" in refused.stderr
