"""Other libraries' objects in and out: one module for each library, which loads it no sooner than imported."""
