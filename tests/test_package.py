"""The package as a user meets it: names, lazy imports, secrets of the description."""

import subprocess
import sys
from pathlib import Path

import pytest

import pabi
from support.every_case import every


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


HEAVY = ("scipy", "matplotlib", "sklearn", "flint", "randomgen", "typer", "rich")
ACCOUNT = ["account", str(Path(__file__).parents[1] / "examples" / "mnist-cyclic.toml")]
ACCOUNT += ["--delta", "1e-5"]


@every(
    "code, heavy",
    [
        ("import pabi", HEAVY),
        (
            "import pabi; assert 'pabi.prox' not in sys.modules; pabi.prox.ball(1.0)([2.0], 1.0)",
            HEAVY,
        ),
        (
            f"from pabi import cli; assert cli.main({ACCOUNT!r}) == 0",
            ("scipy.special", "scipy.optimize", "matplotlib", "sklearn", "rich", "tomli_w"),
        ),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(code, heavy):
    script = f"import sys; {code}; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "[]"


def test_completion_shows_estimators_and_nothing_that_is_not_public():
    """In pabi.learn, whose estimators are loaded on first use."""
    assert set(dir(pabi.learn)) == set(pabi.learn.__all__)
    assert "PrivateLogisticRegression" in dir(pabi.learn)
