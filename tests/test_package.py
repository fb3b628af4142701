"""The package as a user meets it: names, lazy imports, secrets of the description."""

import subprocess
import sys

import pytest

import pabi


def test_every_public_name_resolves_and_is_documented():
    for name in pabi.__all__:
        assert getattr(pabi, name).__doc__, name
        assert name in dir(pabi)
    with pytest.raises(AttributeError, match="no attribute 'opacus'"):
        pabi.opacus  # noqa: B018


def test_functions_are_not_shadowed_by_modules():
    """`pabi.verify` stays a function whatever has been imported."""
    import pabi.account.calibration
    import pabi.account.changes
    import pabi.verification

    assert callable(pabi.verify)
    assert callable(pabi.calibrate)
    assert callable(pabi.compose)


def test_import_loads_nothing_heavy():
    script = (
        "import sys, pabi; "
        "print([m for m in ('scipy', 'matplotlib', 'sklearn', 'flint', 'randomgen', 'typer', 'rich') "
        "if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_completion_shows_estimators_and_nothing_that_is_not_public():
    """In pabi.learn, whose estimators are loaded on first use."""
    assert set(dir(pabi.learn)) == set(pabi.learn.__all__)
    assert "PrivateLogisticRegression" in dir(pabi.learn)
