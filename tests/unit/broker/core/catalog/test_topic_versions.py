"""What a nameserver is told: the topics that changed since it was told last, or everything."""

from popmq_broker.core.catalog.topic_versions import TopicVersions


def test_each_change_counts_and_is_named() -> None:
    versions = TopicVersions(7)
    for name in ("a", "b", "a"):
        versions.changed(name)
    assert versions.current == 10
    assert versions.since(10) == set()
    assert versions.since(9) == {"a"}
    assert versions.since(7) == {"a", "b"}


def test_what_is_too_long_ago_or_of_another_table_is_not_known() -> None:
    versions = TopicVersions(7, kept_max=2)
    for name in ("a", "b", "c"):
        versions.changed(name)
    assert versions.since(8) == {"b", "c"}
    assert versions.since(7) is None
    assert versions.since(11) is None


def test_behind_a_change_of_all_nothing_is_known() -> None:
    versions = TopicVersions()
    versions.changed("a")
    versions.all_changed()
    assert versions.since(1) is None
    assert versions.since(2) == set()
