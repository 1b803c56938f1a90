"""The web console: pages for operators, made of what the admin service of a proxy tells. It keeps
nothing that matters, and speaks to nobody but the proxy."""
