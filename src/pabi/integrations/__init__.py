"""Other libraries' objects in and out: one module for each library, loaded when it is needed."""
