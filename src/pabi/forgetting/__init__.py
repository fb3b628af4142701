"""Forgetting records: the secret state of a trained run, and requests to take records out of it."""
