"""Which messages a consumer wants: by tag, or by a filter in SQL 92."""
