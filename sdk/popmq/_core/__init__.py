"""Pure parts of the client."""
