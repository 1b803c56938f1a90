"""Topics and groups are made, changed, deleted; the broker tells the nameservers."""
