from support.unpriced import unpriced  # noqa: F401
