from support.execution import unpriced  # noqa: F401
