"""Who visits, and what is let in: sessions, tokens against forged forms, bounded tries, headers."""
