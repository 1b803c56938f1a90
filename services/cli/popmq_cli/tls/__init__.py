"""popmq tls: a private authority, and certificates that it signs."""
