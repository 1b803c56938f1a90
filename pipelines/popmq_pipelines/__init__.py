"""The audit: read-only snapshots of a broker's files, and what Spark finds in them."""
