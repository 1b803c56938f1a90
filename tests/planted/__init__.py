"""Faults that are put into the snapshot of a real broker, a module of them per question of the
audit; what each must be found as. tests/pipelines/test_planted_in_export.py looks for all."""

from planted import maximum, order, positions, queues, waits

FAULTS = (*positions.FAULTS, *order.FAULTS, *maximum.FAULTS, *waits.FAULTS, *queues.FAULTS)
"""In the order of the table in docs/audit.md."""
