"""Who a client is and where it connects: credentials, contexts, and the files that keep them."""
