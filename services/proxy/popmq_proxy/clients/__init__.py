"""What the proxy asks of others: routes of nameservers, everything else of brokers."""
