"""The audit's report: HTML, Markdown, text, gauges; and when it is made."""
