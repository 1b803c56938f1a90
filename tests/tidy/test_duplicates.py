"""No two places share much, no two classes a name; each rule can fail."""

from tidy.class_names import DOUBLE_FOR_A_REASON, double_names
from tidy.duplicates import SHARED_FOR_A_REASON, SHARED_LINES_MAX, counted_lines, shared_lines
from tidy.sources import ROOT, by_module, by_path, production

BODY = [f"    value_{number} = {number}\n" for number in range(SHARED_LINES_MAX + 1)]


def function(name: str, lines: list[str]) -> str:
    return f"def {name}(argument: int) -> None:\n" + "".join(lines)


def test_a_duplicate_is_found() -> None:
    sources = {"a": "\n\n" + function("f", BODY), "b": function("g", BODY)}
    (found,) = shared_lines(sources)
    assert (found.one, found.one_line, found.other, found.other_line) == ("a", 4, "b", 2)
    assert len(found.lines) == SHARED_LINES_MAX + 1


def test_a_duplicate_in_one_file_is_found() -> None:
    (found,) = shared_lines({"a": function("f", BODY) + function("g", BODY)})
    assert (found.one_line, found.other_line) == (2, 2 + len(BODY) + 1)


def test_indentation_comments_and_blank_lines_hide_nothing() -> None:
    deeper = [f"    # why\n\n        {line.strip()}\n" for line in BODY]
    assert shared_lines(
        {"a": function("f", BODY), "b": function("g", ["    if argument:\n", *deeper])}
    )


def test_fewer_lines_are_none() -> None:
    assert shared_lines({"a": function("f", BODY[1:]), "b": function("g", BODY[1:])}) == []


def test_what_does_not_count() -> None:
    source = """import os


@cache
def f(
    one: int,
) -> int:
    'What it gives.'
    # why
    return (
        one
    )
"""
    assert [text for _, text in counted_lines(source)] == ["return (", "one"]


def test_no_two_places_share_more_than_a_few_lines() -> None:
    found = shared_lines(by_path(production()))
    assert [str(one) for one in found if (one.one, one.other) not in SHARED_FOR_A_REASON] == []


def test_a_class_name_is_used_for_one_thing() -> None:
    assert set(double_names(by_module(production()))) - set(DOUBLE_FOR_A_REASON) == set()


def test_a_name_of_two_classes_is_found() -> None:
    one, other = "class Turn:\n    pass\n", "class Other:\n    class Turn:\n        pass\n"
    assert double_names({"a": one, "b": other}) == {"Turn": ["a", "b"]}
    assert double_names({"a": one, "b": "class Other:\n    pass\n"}) == {}


def test_exceptions_are_needed() -> None:
    assert set(DOUBLE_FOR_A_REASON) <= set(double_names(by_module(production())))
    for pair in SHARED_FOR_A_REASON:
        assert shared_lines({name: (ROOT / name).read_text() for name in pair})
