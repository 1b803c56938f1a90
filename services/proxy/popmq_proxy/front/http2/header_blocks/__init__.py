"""HPACK: header blocks decoded and encoded, with bounds."""
