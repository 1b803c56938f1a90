"""An SQL92 filter: an expression over a message's properties, compiled once.

A queue entry tells nothing about properties, so every message has to be looked at; of its
properties only those are decoded that the expression names. A message matches when the expression
is TRUE: unknown, and a comparison that is not possible, are no match.

Source: RocketMQ SqlFilter, ExpressionMessageFilter. The bounds are ours.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from lark.exceptions import UnexpectedCharacters, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from popmq_broker.core.filters.sql_grammar import WORDS, SqlRefused, parser
from popmq_broker.core.filters.sql_tree import DEPTH_MAX, Evaluate, Node, TooDeep, function
from popmq_broker.core.filters.sql_values import NotComparable
from popmq_common.errors import IllegalFilter

EXPRESSIONS_CACHED_MAX: Final = 256
CHARACTERS_MAX: Final = 16_384
TOKENS_MAX: Final = 2_048
"""Words, numbers, texts and signs: what one parse may cost the others."""
TERMS_MAX: Final = 256
"""Properties and constants, without the texts of IN: what a look at one message may cost."""
_TERMS: Final = frozenset({"NAME", "WHOLE", "DOUBLE", "TRUE", "FALSE", "NULL"})
_SHOWN_CHARACTERS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class SqlFilter:
    expression: str
    evaluate: Evaluate = field(repr=False, compare=False)

    def may_match(self, code: int) -> bool:
        """A queue entry alone never says no."""
        return True

    def matches(self, properties: bytes) -> bool:
        try:
            return self.evaluate(properties) is True
        except NotComparable:
            return False


@lru_cache(maxsize=EXPRESSIONS_CACHED_MAX)
def parse_sql(expression: str) -> SqlFilter:
    """Raises `IllegalFilter`, which says at which column and what was expected there."""
    try:
        if len(expression) > CHARACTERS_MAX:
            raise SqlRefused(CHARACTERS_MAX + 1, f"more than {CHARACTERS_MAX:,} characters")
        return SqlFilter(expression, function(_parse(expression)))
    except TooDeep as deep:
        column, reason = deep.column, f"more than {DEPTH_MAX} levels within each other"
    except SqlRefused as refused:
        column, reason = refused.column, refused.reason
    shown = expression
    if len(shown) > _SHOWN_CHARACTERS_MAX:
        shown = shown[:_SHOWN_CHARACTERS_MAX] + "…"
    raise IllegalFilter(expression=shown, reason=f"column {column}: {reason}")


def _parse(expression: str) -> Node:
    parsing = parser().parse_interactive(expression)
    terms = 0
    try:
        for count, token in enumerate(parsing.iter_parse(), 1):
            terms += token.type in _TERMS
            if count > TOKENS_MAX or terms > TERMS_MAX:
                what = f"{TOKENS_MAX:,} words" if count > TOKENS_MAX else f"{TERMS_MAX} terms"
                raise SqlRefused((token.start_pos or 0) + 1, f"more than {what}")
        node: Node = parsing.feed_eof()  # type: ignore[no-untyped-call]
    except UnexpectedToken as wrong:
        token = wrong.token
        if token.type == "$END":
            raise SqlRefused(len(expression) + 1, f"it ends here, {_expected(parsing)}") from None
        raise SqlRefused((token.start_pos or 0) + 1, _found(str(token), parsing)) from None
    except UnexpectedCharacters as wrong:
        at = wrong.pos_in_stream or 0
        if expression[at] == "'":
            raise SqlRefused(at + 1, "the text that begins here has no end") from None
        raise SqlRefused(at + 1, _found(expression[at], parsing)) from None
    return node


def _found(text: str, parsing: InteractiveParser) -> str:
    shown = text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "…"
    return f"{_expected(parsing)}, found {shown}"


def _expected(parsing: InteractiveParser) -> str:
    accepted = parsing.accepts()  # type: ignore[no-untyped-call]
    words = [word for terminal, word in WORDS.items() if terminal in accepted]
    if len(words) == 1:
        return f"expected {words[0]}"
    return f"expected {', '.join(words[:-1])} or {words[-1]}"
