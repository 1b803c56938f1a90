"""DataFrame → DataFrame, nothing else."""
