"""What at least two services need, and nothing else."""
