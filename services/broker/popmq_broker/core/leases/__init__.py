"""Pop leases: CK and ACK records, what a group holds, FIFO order, the pop buffer."""
