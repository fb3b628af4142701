from support.computed_once import calibrated_once  # noqa: F401
