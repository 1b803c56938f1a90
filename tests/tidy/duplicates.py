"""Places of production code that share lines, as functions over source text."""

import ast
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeGuard

SHARED_LINES_MAX = 6

SHARED_FOR_A_REASON: dict[tuple[str, str], str] = {}
"""Two files → why one piece of code cannot serve both."""

Line = tuple[int, str]
"""Its number in the file, and its text without indentation."""


class Shared(NamedTuple):
    """A run of lines that two places have in common, as long as it goes."""

    one: str
    one_line: int
    other: str
    other_line: int
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.one}:{self.one_line} ~ {self.other}:{self.other_line}, {len(self.lines)}"


def counted_lines(source: str) -> list[Line]:
    """All but blank lines, comments, imports, docstrings, signatures and lone brackets."""
    skipped = set(_not_counted(ast.parse(source)))
    return [
        (number, text)
        for number, text in enumerate(map(str.strip, source.splitlines()), 1)
        if number not in skipped and text[:1] != "#" and any(map(str.isalnum, text))
    ]


def _not_counted(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            yield from range(first, max(node.body[0].lineno, node.lineno + 1))


def _is_docstring(node: ast.AST) -> TypeGuard[ast.Expr]:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def shared_lines(sources: Mapping[str, str], longest: int = SHARED_LINES_MAX) -> list[Shared]:
    """Each pair of places with a run of more than `longest` lines in common, once."""
    counted = {name: counted_lines(source) for name, source in sources.items()}
    places: defaultdict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for name, lines in counted.items():
        for start in range(len(lines) - longest):
            places[tuple(text for _, text in lines[start : start + longest + 1])].append(
                (name, start)
            )
    found = []
    for several in places.values():
        for one, other in itertools.combinations(several, 2):
            if not _begins_earlier(counted, one, other):
                run = _run(counted, one, other)
                if len(run) > longest:
                    found.append(
                        Shared(
                            one[0],
                            counted[one[0]][one[1]][0],
                            other[0],
                            counted[other[0]][other[1]][0],
                            run,
                        )
                    )
    return sorted(found)


def _begins_earlier(
    counted: Mapping[str, list[Line]], one: tuple[str, int], other: tuple[str, int]
) -> bool:
    if not one[1] or not other[1]:
        return False
    return counted[one[0]][one[1] - 1][1] == counted[other[0]][other[1] - 1][1]


def _run(
    counted: Mapping[str, list[Line]], one: tuple[str, int], other: tuple[str, int]
) -> tuple[str, ...]:
    """Of one file the two places do not overlap."""
    most = abs(one[1] - other[1]) if one[0] == other[0] else None
    pairs = zip(counted[one[0]][one[1] :], counted[other[0]][other[1] :], strict=False)
    same = itertools.takewhile(lambda pair: pair[0][1] == pair[1][1], pairs)
    return tuple(pair[0][1] for pair in itertools.islice(same, most))
