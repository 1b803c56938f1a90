"""Pop, ack, renew, nack, and the revive of leases that have expired."""
