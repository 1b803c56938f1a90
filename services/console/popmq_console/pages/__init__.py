"""One module per screen: it asks, lets `reading` decide, and fills a template."""
