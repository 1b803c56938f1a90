"""Read, transform, write: no logic here."""
