"""Other libraries' words for privacy, read and written; each file needs its library, which is an extra."""
