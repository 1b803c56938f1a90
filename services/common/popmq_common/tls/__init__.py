"""Certificates: files that are judged and followed, contexts made of them, and who a peer is."""
