"""One report for the cluster: what the audits of all brokers left, summed up by owner."""
