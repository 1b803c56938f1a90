"""A server of several processes: workers, and a supervisor that starts and watches them."""
