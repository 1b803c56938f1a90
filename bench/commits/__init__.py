"""Two commits of PopMQ beside each other: is one slower, and a table of all that were compared."""
