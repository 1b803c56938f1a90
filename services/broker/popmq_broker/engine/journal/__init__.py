"""The broker's state, and the records that keep it: leases, positions, damage, waits."""
