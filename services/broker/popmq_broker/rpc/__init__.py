"""The broker's network side: frames in, frames out."""
