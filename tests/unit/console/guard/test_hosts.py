"""May a page of another site read the console through a name of its own? No."""

import pytest

from popmq_console.guard.hosts import host_name, is_allowed

NAMES = {"console.example.org"}


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8082",
        "127.0.0.1",
        "localhost:8082",
        "LOCALHOST",
        "[::1]:8082",
        "[::1]",
        "10.0.0.7:8082",
        "console.example.org",
        "Console.Example.org:443",
        "console.example.org.",
    ],
)
def test_addresses_and_own_names_are_let_in(host: str) -> None:
    assert is_allowed(host, NAMES)


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":8082",
        "evil.example",
        "127.0.0.1.evil.example:8082",
        "localhost.evil.example",
        "xconsole.example.org",
        "[::1].evil.example",
        "[::1",
        "0x7f.1",
        "evil.example@localhost",
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert not is_allowed(host, NAMES)


def test_the_name_is_read_without_its_port() -> None:
    assert host_name("[::1]:80") == "::1"
    assert host_name("A.B:1") == "a.b"
