"""Any expression means the same to the filter and to a second reading of RocketMQ's rules.

That one works on the expression as it was made up, never on its text: truth is a number, `AND`
the smallest, `OR` the largest. The text is written with as few parentheses as the rules of
precedence allow, and with blanks and case as they come.
"""

import random
import re
from decimal import Decimal
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from popmq_broker.core.filters.sql_filter import parse_sql
from popmq_common.errors import IllegalFilter
from popmq_common.records.properties import encode

TRUE, UNKNOWN, FALSE = 1, 0, -1
NAMES = ["a", "bb", "TAGS", "notable", "$x"]
TEXTS = ["5", "-1", "30", "30.5", "3000000000", "abc", "it's", "true", "1e1", ""]
NUMBERS = ["0", "5", "30", "3000000000", "30.5", ".5", "1e1", "31L"]
SIGNS = [">", ">=", "<", "<=", "=", "<>"]
WORDS = ["CONTAINS", "STARTSWITH", "ENDSWITH"]
Made = tuple[Any, ...]

names = st.sampled_from(NAMES)
numbers = st.tuples(st.sampled_from(["", "-"]), st.sampled_from(NUMBERS)).map("".join)
texts = st.sampled_from(TEXTS)
leaves: st.SearchStrategy[Made] = st.one_of(
    st.tuples(st.just("number"), names, st.sampled_from(SIGNS), numbers),
    st.tuples(st.just("text"), names, st.sampled_from(["=", "<>"]), texts),
    st.tuples(st.just("null"), names, st.booleans()),
    st.tuples(st.just("in"), names, st.booleans(), st.lists(texts, min_size=1, max_size=3)),
    st.tuples(st.just("part"), names, st.booleans(), st.sampled_from(WORDS), texts),
    st.tuples(st.just("between"), names, st.booleans(), numbers, numbers),
    st.tuples(st.just("constant"), st.sampled_from(["TRUE", "FALSE", "NULL"])),
    st.tuples(st.just("property"), names),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4)),
    ),
    max_leaves=12,
)
messages = st.dictionaries(names, texts)


class NoAnswer(Exception):
    """A comparison that is not possible."""


def number(text: str) -> tuple[Decimal, int]:
    """(value, its bits; 0: a double)"""
    if re.fullmatch(r"-?\d+L?", text):
        value = Decimal(text.rstrip("L"))
        return value, 32 if abs(value) < 2**31 else 64
    return Decimal(text), 0


def compare(text: str, sign: str, constant: str) -> int:
    value, bits = number(constant)
    pattern = r"[+-]?\d+" if bits else r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?"
    if not re.fullmatch(pattern, text):
        raise NoAnswer
    held = Decimal(text)
    if bits and not -(2 ** (bits - 1)) <= held < 2 ** (bits - 1):
        raise NoAnswer
    holds = {
        ">": held > value,
        ">=": held >= value,
        "<": held < value,
        "<=": held <= value,
        "=": held == value,
        "<>": held != value,
    }
    return worth(holds[sign])


def worth(holds: bool) -> int:
    return TRUE if holds else FALSE


def meaning(made: Made, message: dict[str, str]) -> int:
    kind = made[0]
    if kind == "not":
        return -meaning(made[1], message)
    if kind in ("and", "or"):
        decided = FALSE if kind == "and" else TRUE
        found = []
        for part in made[1]:
            found.append(meaning(part, message))
            if found[-1] == decided:
                return decided
        return min(found) if kind == "and" else max(found)
    if kind == "constant":
        return {"TRUE": TRUE, "FALSE": FALSE, "NULL": UNKNOWN}[made[1]]
    text = message.get(made[1])
    if text == "" and len(made[1]) == 1:
        text = None
    return meaning_of_leaf(made, text)


def meaning_of_leaf(made: Made, text: str | None) -> int:
    match made:
        case "null", _, negated:
            return worth((text is None) is not negated)
        case "part", _, negated, word, piece:
            if text is None or not piece:
                return FALSE
            holds = {
                "CONTAINS": piece in text,
                "STARTSWITH": text[: len(piece)] == piece,
                "ENDSWITH": text[-len(piece) :] == piece,
            }
            return worth(holds[word] is not negated)
    if text is None:
        return UNKNOWN
    match made:
        case "property", _:
            return FALSE
        case "number", _, sign, constant:
            return compare(text, sign, constant)
        case "text", _, sign, other:
            return worth((text == other) is (sign == "="))
        case "in", _, negated, listed:
            return worth((text in listed) is not negated)
        case "between", _, negated, low, high:
            if negated:
                parts = (("number", "", "<", low), ("number", "", ">", high))
                first = meaning_of_leaf(parts[0], text)
                return first if first == TRUE else meaning_of_leaf(parts[1], text)
            first = compare(text, ">=", low)
            return first if first == FALSE else compare(text, "<=", high)
    raise AssertionError(made)


OR, AND, EQUAL, ORDER, OPERAND = range(5)


def render(made: Made, rng: random.Random, at_least: int = OR) -> str:
    level, parts = written(made, rng)
    text = ""
    for part in parts:
        blank = rng.choice([" ", " ", "\t", "\n", " /* * */ ", " -- '\n"])
        text += (blank if text else "") + part
    return f"({text})" if level < at_least or rng.random() < 0.1 else text


def written(made: Made, rng: random.Random) -> tuple[int, list[str]]:
    """How close it binds, and its words."""

    def word(text: str) -> str:
        return "".join(rng.choice([letter.lower(), letter.upper()]) for letter in text)

    def quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    def nots(negated: bool) -> list[str]:
        return [word("NOT")] if negated else []

    match made:
        case "not", inner:
            return OPERAND, [word("NOT"), render(inner, rng, OPERAND)]
        case ("and" | "or") as kind, inner:
            level = AND if kind == "and" else OR
            parts = [render(inner[0], rng, level)]
            for part in inner[1:]:
                parts += [word(kind), render(part, rng, level + 1)]
            return level, parts
        case ("number" | "text") as kind, name, sign, value:
            level = EQUAL if sign in ("=", "<>") else ORDER
            return level, [name, sign, value if kind == "number" else quoted(value)]
        case "null", name, negated:
            return EQUAL, [name, word("IS"), *nots(negated), word("NULL")]
        case "in", name, negated, listed:
            items = ", ".join(map(quoted, listed))
            return ORDER, [name, *nots(negated), word("IN"), f"({items})"]
        case "part", name, negated, kind, text:
            return ORDER, [name, *nots(negated), word(kind), quoted(text)]
        case "between", name, negated, low, high:
            return ORDER, [name, *nots(negated), word("BETWEEN"), low, word("AND"), high]
        case "constant", text:
            return OPERAND, [word(text)]
        case "property", name:
            return OPERAND, [name]
    raise AssertionError(made)


def answer_of(text: str, message: dict[str, str]) -> bool | str:
    """Whether it matches, or why it is refused."""
    try:
        return parse_sql(text).matches(encode(message))
    except IllegalFilter as refused:
        return str(refused)


@given(expressions, messages, st.randoms(use_true_random=False))
@example(("not", ("between", "a", False, "0", "5")), {"a": "abc"}, random.Random(1))
@example(("or", [("number", "a", ">", "5"), ("constant", "TRUE")]), {"a": "x"}, random.Random(1))
def test_an_expression_means_what_it_was_made_for(
    made: Made, message: dict[str, str], rng: random.Random
) -> None:
    text = render(made, rng)
    try:
        expected = meaning(made, message) == TRUE
    except NoAnswer:
        expected = False
    answer = answer_of(text, message)
    if isinstance(answer, str):
        assert "the smaller number first" in answer, text
    else:
        assert answer is expected, text


@given(st.text(alphabet="ab1.'()<>=- \n,*/$eL", max_size=40))
def test_any_text_is_compiled_or_refused_with_a_column(text: str) -> None:
    answer = answer_of(text, {"a": "1", "b": "x"})
    assert isinstance(answer, bool) or "column " in answer
