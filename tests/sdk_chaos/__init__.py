"""The SDK while consumers, proxies and brokers are stopped and killed."""
