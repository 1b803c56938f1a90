"""The route table. Pure."""
