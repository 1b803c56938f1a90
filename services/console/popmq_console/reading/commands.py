"""The `popmq` command that does what a button does, ready to be pasted into a shell."""

import shlex


def command(*words: object, **options: object) -> str:
    """Options in the order given; True: a flag, None, False and an empty text: left out."""
    parts = ["popmq", *map(str, words)]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            parts.append(flag)
        elif isinstance(value, list | tuple):
            for one in value:
                parts += [flag, str(one)]
        elif value not in (None, False, ""):
            parts += [flag, str(value)]
    return shlex.join(parts)
