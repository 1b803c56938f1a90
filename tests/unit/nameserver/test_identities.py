"""What a nameserver remembers of the data directories it has seen."""

from popmq_nameserver.core.identities import Identities


def test_the_first_identity_of_a_name_is_remembered() -> None:
    seen = Identities()
    assert seen.before("broker-a", "one") == ""
    assert seen.before("broker-a", "one") == ""
    assert seen.before("broker-a", "two") == "one"
    assert seen.before("broker-a", "three") == "one"
    assert seen.before("broker-a", "one") == ""
    assert seen.before("broker-b", "two") == ""


def test_a_broker_that_tells_none_changes_nothing() -> None:
    seen = Identities()
    assert seen.before("broker-a", "") == ""
    assert seen.before("broker-a", "one") == ""
    assert seen.before("broker-a", "") == ""
    assert seen.before("broker-a", "two") == "one"


def test_the_name_that_was_not_used_longest_is_forgotten() -> None:
    seen = Identities(kept_max=2)
    for name in ("a", "b", "a", "c"):
        seen.before(name, "one")
    assert [seen.before(name, "two") for name in ("a", "c")] == ["one", "one"]
    assert seen.before("b", "two") == ""
