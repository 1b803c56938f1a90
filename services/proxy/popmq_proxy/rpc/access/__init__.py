"""Who sends a request and whether they may; users and policies changed; what is written of both."""
