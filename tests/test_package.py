"""The package as a user meets it: names, lazy imports, secrets of the description, and what it logs."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import pabi
from pabi import learn
from pabi.account.analyses import analyses_of
from pabi.sampling import langevin
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


# The logger names analyses, classes of descriptions and times: nothing of the data or of a model.


MESSAGE = re.compile(r"([A-Za-z -]+) of ([A-Za-z]+): (applies|does not apply) \(\d+\.\d{3} s\)")


def description(n=60, **changed):
    settings = {"epochs": 3, "step_size": 0.5, "noise_std": 0.3, **changed}
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
    return pabi.NoisySGD(loss, n=n, batches=pabi.Cyclic(size=20), **settings)


def data():
    X = np.random.default_rng(0).normal(size=(60, 3))
    X /= 1.01 * np.linalg.norm(X, axis=1, keepdims=True)
    return X, (X @ [1.0, -1.0, 0.5] > 0.0).astype(float)


def trained(flipped=False):
    X, y = data()
    gradients = learn.LogisticGradients(learn.bound_rows(X, 1.0), 1.0 - y if flipped else y)
    learn.train(description(), gradients, np.zeros(3), progress=True)


def fitted():
    X, y = data()
    settings = {"epsilon": 1.0, "delta": 1e-3, "feature_norm": 1.0, "epochs": 3}
    learn.PrivateLogisticRegression(classes=[0, 1], **settings).fit(X, y).predict(X)
    learn.PrivateLinearRegression(**settings).fit(X, y).predict(X)


def sampled():
    X, y = data()
    loss = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
    chain = pabi.LangevinChain(loss, 60, inverse_temperature=50.0, step_size=1e-3, steps=5)
    weights = X * (2.0 * y - 1.0)[:, None]
    langevin(chain, lambda x: -expit(-(x @ weights.T)) @ weights / 60, np.zeros(3))


@pytest.mark.parametrize("work", [trained, fitted, sampled], ids=lambda work: work.__name__)
def test_training_logs_nothing_of_data_and_model(work, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    work()
    description().guarantee(delta=1e-3)
    assert "composition of NoisySGD: applies" in caplog.text
    for record in caplog.records:
        assert record.name == "pabi"
        assert record.levelno == logging.DEBUG
        found = MESSAGE.fullmatch(record.getMessage())
        assert found, record.getMessage()
        assert hasattr(pabi, found[2])
        # What a handler could read beside the message: names and a time.
        assert [type(value) for value in record.args] == [str, str, str, float]
        assert record.exc_info is None


def test_every_analysis_is_told_once(caplog):
    caplog.set_level(logging.DEBUG, logger="pabi")
    run = description()
    run.guarantee(delta=1e-3)
    told = [MESSAGE.fullmatch(record.getMessage())[1] for record in caplog.records]
    assert told == [analysis.name for analysis in analyses_of(run)]


def test_the_same_messages_whatever_the_data(caplog):
    caplog.set_level(logging.DEBUG)
    told = []
    for flipped in (False, True):
        caplog.clear()
        trained(flipped)
        told.append([re.sub(r"\(.*", "", record.getMessage()) for record in caplog.records])
    assert told[0] == told[1]


def test_silent_unless_configured():
    script = (
        "import pabi, logging; logging.getLogger('pabi').error('a message'); "
        "print(len(logging.root.handlers))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
