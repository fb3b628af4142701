"""Kong, Ribero."""

SOURCE = "Kong, Ribero"
