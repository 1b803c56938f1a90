"""Where the time goes: flame graphs and a table of functions for broker and proxy under load."""
