"""How the audit's time grows with rows, beside a plain read of the same files."""
