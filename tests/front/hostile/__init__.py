"""Clients that mean harm, each a process, beside a neighbour that does not."""
