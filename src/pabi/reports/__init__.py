"""What a guarantee says, for people who did not compute it: officers, auditors, readers of a model card."""
