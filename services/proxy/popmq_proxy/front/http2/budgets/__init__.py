"""What one client may take: streams, time, memory, pings."""
