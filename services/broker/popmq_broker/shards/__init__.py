"""A broker of several processes, each a broker with a log of its own."""
