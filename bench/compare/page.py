"""A page of the docs that has places for what a benchmark measured."""


def put(page: str, name: str, text: str) -> str:
    """The page with this between its marks of that name; `ValueError`: it has none."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"
