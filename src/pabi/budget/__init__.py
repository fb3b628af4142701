"""The ledger: what several releases from the same data may spend together, as a file."""
