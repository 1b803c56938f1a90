"""The audit's tables as Delta Lake tables, for analysts."""
