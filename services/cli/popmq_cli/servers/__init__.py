"""Commands that run services: standalone, nameserver, broker, proxy, quickstart."""
