"""SQL filters are parsed: their grammar, and what builds the tree of one.

    a, TAGS, $x_1      a property; letters A to Z, digits, _ and $
    5  5L  1.5  2e10   numbers          'it''s'          text
    TRUE FALSE NULL    words are the same in any case
    = <>  IS [NOT] NULL                 > >= < <=  [NOT] BETWEEN … AND …
    [NOT] IN ('a', 'b')                 [NOT] CONTAINS | STARTSWITH | ENDSWITH 'a'
    NOT  AND  OR  ( )                   -- to the end of a line, /* */

`NOT`, `-` and `+` bind closest: `NOT a = 1` is `(NOT a) = 1`. Then come the comparisons that order,
`IN` and its like, then `=`, `<>` and `IS`, then `AND`, then `OR`.

Source: RocketMQ SelectorParser.jj and the checks of ComparisonExpression. Three differences: what
is behind a whole expression is refused, there it is ignored; 0.0 is a number; and a comment needs
no end of line, so `--5` is one.
"""

from functools import cache
from typing import Any, Final

from lark import Lark, Token, Transformer

from popmq_broker.core.filters import sql_tree as tree
from popmq_broker.core.filters.sql_tree import Constant, Node, Property
from popmq_broker.core.filters.sql_values import NotComparable, constant, order

GRAMMAR: Final = r"""
start: disjunction
?disjunction: conjunction (_OR conjunction)*
?conjunction: equality (_AND equality)*
?equality: comparison
    | equality (EQUAL | UNEQUAL) comparison                       -> equal
    | equality IS [NOT] NULL                                      -> is_null
?comparison: operand
    | comparison (ABOVE | FROM | BELOW | TO) operand              -> ordered
    | comparison [NOT] BETWEEN operand _AND operand               -> between
    | comparison [NOT] IN _OPEN TEXT (_COMMA TEXT)* _CLOSE        -> is_in
    | comparison [NOT] (CONTAINS | STARTSWITH | ENDSWITH) TEXT    -> part
?operand: NOT operand                                             -> negated
    | MINUS operand                                               -> negative
    | _PLUS operand
    | NAME                                                        -> property
    | (TEXT | WHOLE | DOUBLE | TRUE | FALSE | NULL)               -> constant
    | _OPEN disjunction _CLOSE

_OR: "OR"i
_AND: "AND"i
NOT: "NOT"i
IS: "IS"i
IN: "IN"i
BETWEEN: "BETWEEN"i
CONTAINS: "CONTAINS"i
STARTSWITH: "STARTSWITH"i
ENDSWITH: "ENDSWITH"i
TRUE: "TRUE"i
FALSE: "FALSE"i
NULL: "NULL"i
EQUAL: "="
UNEQUAL: "<>"
FROM: ">="
TO: "<="
ABOVE: ">"
BELOW: "<"
_PLUS: "+"
MINUS: "-"
_OPEN: "("
_CLOSE: ")"
_COMMA: ","
NAME: /[a-z_$][a-z0-9_$]*/i
TEXT: /'(''|[^'])*'/
DOUBLE.2: /[0-9]+\.[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
WHOLE: /[1-9][0-9]*l?|0/i
_BLANKS: /[ \t\n\r\f]+/
_LINE_COMMENT.2: /--[^\n\r]*/
_BLOCK_COMMENT.2: /\/\*[^*]*\*(\*|[^*\/][^*]*\*)*\//
%ignore _BLANKS
%ignore _LINE_COMMENT
%ignore _BLOCK_COMMENT
"""

WORDS: Final = {
    "NAME": "a property",
    "TEXT": "a text in single quotes",
    "_OPEN": "(",
    "_CLOSE": ")",
    "_COMMA": ",",
    "_AND": "AND",
    "_OR": "OR",
    "ABOVE": "a comparison",
    "NULL": "NULL",
    "NOT": "NOT",
    "WHOLE": "a number",
    "$END": "the end",
}
"""What an error may name as expected, in this order; the others go with one of these."""


class SqlRefused(Exception):
    """What is wrong, and at which column."""

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(column, reason)
        self.column, self.reason = column, reason


class _Builder(Transformer[Token, Node]):
    """Called with the parts of each rule as soon as it is complete; raises `SqlRefused`."""

    def start(self, parts: list[Node]) -> Node:
        return _condition(parts[0])

    def disjunction(self, parts: list[Node]) -> Node:
        return tree.Any(parts[0].column, tuple(map(_condition, parts)))

    def conjunction(self, parts: list[Node]) -> Node:
        return tree.All(parts[0].column, tuple(map(_condition, parts)))

    def equal(self, parts: list[Any]) -> Node:
        left, sign, right = parts
        for side in (left, right):
            if isinstance(side, Constant) and side.value is None:
                raise SqlRefused(side.column, "NULL cannot be compared, write IS NULL")
        if _is_truth(left) and isinstance(right, Constant) and not _is_truth(right):
            raise SqlRefused(right.column, "this cannot be compared with TRUE or FALSE")
        column = _column(sign)
        equal = tree.Equal(column, left, right)
        return equal if sign == "=" else tree.Not(column, equal)

    def is_null(self, parts: list[Any]) -> Node:
        operand, word, negation, _ = parts
        column = _column(word)
        is_null = tree.IsNull(column, operand)
        return is_null if negation is None else tree.Not(column, is_null)

    def ordered(self, parts: list[Any]) -> Node:
        left, sign, right = parts
        return _ordered(_column(sign), str(sign), left, right)

    def between(self, parts: list[Any]) -> Node:
        operand, negation, word, low, high = parts
        column = _column(word)
        signs = (">=", "<=") if negation is None else ("<", ">")
        sides = tuple(
            _ordered(column, sign, operand, bound)
            for sign, bound in zip(signs, (low, high), strict=True)
        )
        if negation is not None:
            return tree.Any(column, sides)
        if isinstance(low, Constant) and isinstance(high, Constant) and _above(low, high):
            raise SqlRefused(low.column, "BETWEEN needs the smaller number first")
        return tree.All(column, sides)

    def is_in(self, parts: list[Any]) -> Node:
        operand, negation, word, *texts = parts
        if not isinstance(operand, Property):
            raise SqlRefused(operand.column, "expected a property before IN")
        found = frozenset(_text(text) for text in texts)
        return tree.In(_column(word), operand, found, negation is not None)

    def part(self, parts: list[Any]) -> Node:
        operand, negation, word, text = parts
        return tree.SubstringTest(
            _column(word), word.upper(), operand, _text(text), negation is not None
        )

    def negated(self, parts: list[Any]) -> Node:
        word, operand = parts
        return tree.Not(_column(word), _condition(operand))

    def negative(self, parts: list[Any]) -> Node:
        sign, operand = parts
        return tree.Negative(_column(sign), operand)

    def property(self, parts: list[Token]) -> Node:
        return Property(_column(parts[0]), str(parts[0]))

    def constant(self, parts: list[Token]) -> Node:
        token = parts[0]
        column = _column(token)
        if token.type == "TEXT":
            return Constant(column, _text(token))
        if token.type not in ("WHOLE", "DOUBLE"):
            return Constant(column, {"TRUE": True, "FALSE": False}.get(token.type))
        try:
            return Constant(column, constant(token))
        except NotComparable:
            raise SqlRefused(column, "the number is out of range") from None


def _column(token: Token) -> int:
    assert token.start_pos is not None
    return token.start_pos + 1


def _text(token: Token) -> str:
    return token[1:-1].replace("''", "'")


def _above(low: Constant, high: Constant) -> bool:
    """For numbers; whatever else is constant has no order and was refused."""
    assert low.value is not None
    assert high.value is not None
    return order(low.value, high.value) > 0


def _is_truth(node: Node) -> bool:
    return isinstance(node, Constant) and (node.value is None or isinstance(node.value, bool))


def _is_value(node: Node) -> bool:
    """It has no truth of its own."""
    return isinstance(node, Property | tree.Negative | Constant) and not _is_truth(node)


def _condition(node: Node) -> Node:
    if isinstance(node, Property):
        return tree.Truth(node.column, node)
    if _is_value(node):
        raise SqlRefused(node.column, "expected a condition, a value is none")
    return node


def _ordered(column: int, sign: str, left: Node, right: Node) -> Node:
    for side in (left, right):
        if not _is_value(side) or (isinstance(side, Constant) and isinstance(side.value, str)):
            raise SqlRefused(
                side.column, "expected a number or a property, only these have an order"
            )
    return tree.Ordered(column, sign, left, right)


@cache
def parser() -> Lark:
    """Made for the first filter: it takes a good part of a broker's start, which few need."""
    return Lark(
        GRAMMAR, parser="lalr", lexer="basic", transformer=_Builder(), maybe_placeholders=True
    )
