"""What the audit computes: what is missing, twice, early, late, out of order; and the verdict."""
