"""The connection between proxies, brokers and nameservers: frames, errors, secret."""
