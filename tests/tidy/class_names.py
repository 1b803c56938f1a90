"""A class's name is used for one thing in the whole tree."""

import ast
from collections import defaultdict
from collections.abc import Mapping


def double_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Name → the modules that define a class of that name, where there are several."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    return {name: sorted(found) for name, found in sorted(places.items()) if len(found) > 1}


DOUBLE_FOR_A_REASON = {
    "AccessDenied": "as GroupNotFound",
    "GroupNotFound": "an error of the servers; the SDK has one of the same name for users",
    "InvalidReceiptHandle": "as GroupNotFound",
    "TooManyRequests": "as GroupNotFound",
    "TopicNotFound": "as GroupNotFound",
}
