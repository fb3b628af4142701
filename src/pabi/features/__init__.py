"""Public features of images: maps that no data have a say in, so that they need no privacy budget."""
