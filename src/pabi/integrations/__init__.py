"""Other libraries' objects in and out: one module for each library, which loads it when it is imported or used."""
