"""What ends a benchmark or one of its rows, told to people."""


class BenchFailure(Exception):
    """The message says what went wrong and, where there is one, the command that mends it."""
