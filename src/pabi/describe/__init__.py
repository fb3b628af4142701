"""What happens to the data: descriptions, and the losses, batches, updates and maps that they are made of.

A description is frozen and says nothing of privacy. The accountant reads it (`account.facts`,
`account.analyses`), and the trainer executes the same object (`execute`).
"""
