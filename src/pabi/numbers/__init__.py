"""Numbers as they are checked, rounded, shown and written, and the errors that say what is wrong."""
