"""Which messages an SQL filter lets through, and what it says to an expression that is none."""

import re
from time import perf_counter

import pytest

from popmq_broker.core.filters.sql_filter import CHARACTERS_MAX, TERMS_MAX, TOKENS_MAX, parse_sql
from popmq_broker.core.filters.sql_tree import DEPTH_MAX
from popmq_common.errors import IllegalFilter
from popmq_common.records.properties import encode

BIG = "3000000000"  # more than 32 bits
MESSAGE = encode(
    {
        "UNIQ_KEY": "01AB",
        "TAGS": "A",
        "price": "30",
        "half": "30.5",
        "big": BIG,
        "yes": "TRUE",
        "no": "false",
        "name": "O'Neill",
        "blank": "",
        "x": "",
        "minus": "-7",
        "spaced": " 8 ",
        "nan": "NaN",
        "$_9": "odd",
    }
)


def matches(expression: str, properties: bytes = MESSAGE) -> bool:
    return parse_sql(expression).matches(properties)


def refusal(expression: str) -> str:
    with pytest.raises(IllegalFilter) as refused:
        parse_sql(expression)
    return str(refused.value.fields["reason"])


# --- truth ---

WORTH = {True: "TRUE", False: "FALSE", None: "(missing = '1')"}


def truth(expression: str) -> bool | None:
    """What it is worth: only a match of the one or the other tells unknown from false."""
    if matches(expression):
        return True
    return False if matches(f"NOT ({expression})") else None


@pytest.mark.parametrize("left", WORTH)
@pytest.mark.parametrize("right", WORTH)
def test_and_or_have_three_values(left: bool | None, right: bool | None) -> None:
    a, b = WORTH[left], WORTH[right]
    both = False if False in (left, right) else None if None in (left, right) else True
    either = True if True in (left, right) else None if None in (left, right) else False
    assert truth(f"{a} AND {b}") is both
    assert truth(f"{a} OR {b}") is either


@pytest.mark.parametrize(("value", "negated"), [(True, False), (False, True), (None, None)])
def test_not_has_three_values(value: bool | None, negated: bool | None) -> None:
    assert truth(f"NOT ({WORTH[value]})") is negated


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("FALSE AND TRUE OR TRUE", True),
        ("FALSE AND (TRUE OR TRUE)", False),
        ("TRUE OR TRUE AND FALSE", True),
        ("NOT FALSE AND FALSE", False),
        ("NOT (FALSE AND FALSE)", True),
        ("price > 20 = TRUE", True),  # what orders binds closer than =
        ("TRUE = price > 20", True),
        ("price BETWEEN 1 AND 40 AND FALSE", False),
        ("NOT price IS NULL", False),  # (NOT price) IS NULL: NOT binds closest
        ("NOT (price IS NULL)", True),
        ("- - price > 1", False),
        ("+price > 1", True),
    ],
)
def test_precedence(expression: str, expected: bool) -> None:
    assert matches(expression) is expected


# --- comparisons ---


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # a whole number stands beside text that is a whole number of its width
        ("price > 20", True),
        ("price > 30", False),
        ("price >= 30", True),
        ("price < 31", True),
        ("price <= 29", False),
        ("price = 30", True),
        ("price <> 30", False),
        ("20 < price", True),
        ("price = 30L", True),
        ("minus < -6", True),
        ("minus = -7", True),
        ("price < 3000000000", True),
        # …and beside no other
        ("half > 20", False),
        ("half <= 20", False),
        ("big > 20", False),
        ("big > 2999999999", True),
        ("spaced > 7", False),
        ("blank > 7", False),
        ("name <> 1", False),
        # doubles take all of these
        ("half > 20.0", True),
        ("half > 3.04e1", True),
        ("big > 20.", True),
        ("spaced > 7.5", True),
        ("price > .5", True),
        ("price > 0.0", True),
        ("nan > 1.7e308", True),
        ("name > 1.5", False),
        # two properties are ordered as doubles, equal as text
        ("half > price", True),
        ("name > price", False),
        ("price = price", True),
        ("half <> price", True),
        # text
        ("name = 'O''Neill'", True),
        ("name = 'o''neill'", False),
        ("TAGS = 'A'", True),
        ("price = '30'", True),
        ("price = '30.0'", False),
        ("$_9 = 'odd'", True),
        ("PRICE = 30", False),
        # TRUE and FALSE as text, in any case
        ("yes = TRUE", True),
        ("no = false", True),
        ("name = FALSE", True),
        ("TRUE = yes", False),  # not comparable in this order, as in RocketMQ
        # a property alone is text, which is no truth
        ("yes", False),
        ("NOT yes", True),
        ("missing", False),
        ("NOT missing", False),
    ],
)
def test_comparison(expression: str, expected: bool) -> None:
    assert matches(expression) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("price BETWEEN 30 AND 30", True),
        ("price BETWEEN 31 AND 40", False),
        ("price NOT BETWEEN 31 AND 40", True),
        ("price NOT BETWEEN 10 AND 40", False),
        ("price NOT BETWEEN 40 AND 10", True),
        ("missing NOT BETWEEN 1 AND 2", False),
        ("price BETWEEN minus AND half", True),
        ("price IN ('29', '30')", True),
        ("price IN ('29')", False),
        ("price NOT IN ('29')", True),
        ("missing NOT IN ('29')", False),
        ("name IN ('x', 'O''Neill')", True),
        ("name CONTAINS 'Nei'", True),
        ("name NOT CONTAINS 'Nei'", False),
        ("name STARTSWITH 'O'''", True),
        ("name NOT STARTSWITH 'x'", True),
        ("name ENDSWITH 'ill'", True),
        ("name CONTAINS ''", False),
        ("name NOT CONTAINS ''", False),
        ("missing NOT CONTAINS 'x'", False),
        ("'axb' CONTAINS '.'", False),
    ],
)
def test_ranges_lists_and_parts(expression: str, expected: bool) -> None:
    assert matches(expression) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("missing IS NULL", True),
        ("missing IS NOT NULL", False),
        ("price IS NOT NULL", True),
        ("blank IS NULL", False),
        ("x IS NULL", True),  # RocketMQ passes over a property of one letter without a value
        ("missing = 'MQ'", False),
        ("missing <> 'MQ'", False),
        ("'MQ' = missing", False),
        ("'MQ' <> missing", True),  # unknown only on the left, as in RocketMQ
        ("missing = absent", True),
        ("missing > 1 OR price > 1", True),
        ("NULL", False),
        ("NULL IS NULL", True),
    ],
)
def test_what_is_missing(expression: str, expected: bool) -> None:
    assert matches(expression) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("name > 1 OR TRUE", False),
        ("TRUE OR name > 1", True),
        ("FALSE AND name > 1", False),
        ("NOT (FALSE AND name > 1)", True),
        ("NOT (name > 1)", False),
    ],
)
def test_what_cannot_be_compared_spoils_all_that_needs_it(expression: str, expected: bool) -> None:
    assert matches(expression) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "price>20and price<40",
        "price/* as\n * it * was */>20",
        "price > 20 -- today\n AND TRUE",
        "price > 20 -- today",
        "\tprice\r\n>\f20",
        "Price IS nUlL aNd nOt (pRICE iS NOt Null)",
        "notable IS NULL AND inn IS NULL",
    ],
)
def test_blanks_comments_and_case_of_words(expression: str) -> None:
    assert matches(expression)


# --- refusals ---


@pytest.mark.parametrize(
    ("expression", "column", "reason"),
    [
        ("price >", 8, "it ends here, expected a property"),
        ("", 1, "it ends here"),
        ("a b", 3, "expected AND, OR, a comparison, NOT or the end, found b"),
        ("a = 1)", 6, "expected the end, found )"),
        ("(a = 1", 7, "it ends here, expected )"),
        ("a and between 2 and 10", 7, "found between"),
        ("in = 5", 1, "found in"),
        ("a IN (1)", 7, "expected a text in single quotes, found 1"),
        ("a IN ()", 7, "expected a text in single quotes, found )"),
        ("a CONTAINS b", 12, "expected a text in single quotes"),
        ("a LIKE 'x%'", 3, "found LIKE"),
        ("a != 1", 3, "found !"),
        ('a = "MQ"', 5, 'found "'),
        ("a = 'MQ", 5, "the text that begins here has no end"),
        ("a IS 5", 6, "expected NULL or NOT, found 5"),
        ("a = NULL", 5, "write IS NULL"),
        ("a > 'x'", 5, "only these have an order"),
        ("a > TRUE", 5, "only these have an order"),
        ("(a = 1) < 2", 4, "only these have an order"),
        ("a BETWEEN 'a' AND 'b'", 11, "only these have an order"),
        ("a BETWEEN 10 AND 0", 11, "the smaller number first"),
        ("a BETWEEN 10 AND 9.5", 11, "the smaller number first"),
        ("TRUE = 5", 8, "cannot be compared"),
        ("5", 1, "expected a condition"),
        ("a = 1 AND 'x'", 11, "expected a condition"),
        ("NOT 5", 5, "expected a condition"),
        ("-a", 1, "expected a condition"),
        ("'a' IN ('a')", 1, "expected a property before IN"),
        ("a > 9223372036854775808", 5, "out of range"),
        ("a > 1e309", 5, "out of range"),
        ("a > 1e-400", 5, "out of range"),
        ("a = 007", 6, "found 0"),
        ("größe > 1", 3, "found ö"),
        ("a > --5", 8, "it ends here"),
    ],
)
def test_a_refusal_points_at_the_column(expression: str, column: int, reason: str) -> None:
    said = refusal(expression)
    assert re.match(r"column (\d+): ", said), said
    assert said.startswith(f"column {column}: ")
    assert reason in said


@pytest.mark.parametrize(
    ("fits", "more", "reason"),
    [
        ("TRUE" + " " * (CHARACTERS_MAX - 4), " ", "characters"),
        ("a IN ('x'" + ", 'x'" * (TOKENS_MAX // 2 - 3) + ")", " OR TRUE", "words"),
        ("a = 1" + " OR a = 1" * (TERMS_MAX // 2 - 1), " OR a = 1", "terms"),
        ("TRUE" + " = TRUE" * (DEPTH_MAX - 1), " = TRUE", "levels"),
    ],
)
def test_bounds(fits: str, more: str, reason: str) -> None:
    parse_sql(fits)
    assert reason in refusal(fits + more)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 16_000,
        "NOT " * 4_000,
        "- " * 8_000,
        "-" * 16_000,
        "'" * 15_999,
        "/*" * 8_000,
        "1=" * 8_000,
        "a = 1 OR (" * 1_500,
        "a IN (" + "'x'," * 4_000,
        "a = 'x" * 2_000,
        "NOT (" * 500 + "TRUE" + ")" * 500 + " x",
    ],
)
def test_nonsense_is_refused_without_holding_up_the_others(expression: str) -> None:
    started = perf_counter()
    said = refusal(expression)
    assert perf_counter() - started < 1  # some 10 ms, but the machine may be busy
    assert len(said) < 400


def test_one_expression_is_compiled_once() -> None:
    assert parse_sql("price > 20") is parse_sql("price > 20")
