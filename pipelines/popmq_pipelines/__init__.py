"""The audit: snapshots of a broker's files, reconciled by Spark."""
