"""Words that the steps of transcripts share."""

UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def duration_ms(text: str) -> int:
    number = text.rstrip("msh")
    return int(number) * UNITS_MS[text[len(number) :]]
