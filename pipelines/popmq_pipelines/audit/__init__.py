"""What the audit computes: gaps, duplicates, leases, latency, and the verdict."""
