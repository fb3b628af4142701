"""Fuzzing of whatever reads files: honest files that are mutated, and what has to come of it."""
