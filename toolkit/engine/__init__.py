"""Pure functions from values and bytes to values and bytes; nothing here opens a file."""
