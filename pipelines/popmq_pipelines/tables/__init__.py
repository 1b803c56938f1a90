"""What Spark reads and keeps: the session, the ledger, evidence, results."""
