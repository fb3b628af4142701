"""What the checker shares with the code whose results it checks: this, and nothing else.

The lists are those of docs, "Certificates", section "What the checker shares".
"""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pabi
from pabi import describe

SOURCES = Path(pabi.__file__).parent / "verification"
FILES = sorted(SOURCES.rglob("*.py"))
DATA = sorted((Path(__file__).parents[1] / "data" / "v0.1.0").glob("*.json"))

SHARED = {
    # What certificates and guarantees are called, and their text.
    "pabi.tradeoff.certificate": {
        "Certificate",
        "FORMAT",
        "VERSIONS",
        "check_format",
        "stated_sentence",
    },
    "pabi.tradeoff.guarantee": {"FORMAT", "Guarantee", "INDEPENDENT", "VERSIONS", "reading"},
    "pabi.tradeoff.selection": {"ENTERED", "refusing_above", "refusing_divergences_above"},
    "pabi.numbers.encoding": {
        "nesting",
        "parse_json",
        "read_floats",
        "read_integers",
        "unpacking_at_most",
    },
    # Descriptions: their parser, their fields, and their sentences.
    "pabi.describe.files": {"Description", "from_dict", "to_dict"},
    "pabi.describe.moduli": {"table_of"},
    "pabi.describe.accounted": {"group_sentences", "selection_sentences"},
    "pabi.describe.runs": {"NoisySGD", "ONE_SIDE", "run_sentences"},
    "pabi.describe.iteration": {"Groups", "NoisyIteration", "iteration_sentences"},
    "pabi.describe.batches": {
        "BallsInBins",
        "Batches",
        "Cyclic",
        "FixedSize",
        "FullBatch",
        "Poisson",
        "Reshuffle",
        "ShuffleOnce",
    },
    "pabi.describe.losses": {"Loss"},
    "pabi.describe.updates": {"SGD"},
    "pabi.describe.langevin": {
        "FOLLOWED_EXACTLY",
        "LangevinChain",
        "LangevinDiffusion",
        "by_cells",
        "chain_sentences",
        "diffusion_sentences",
    },
    "pabi.describe.mechanisms": {
        "ExponentialMechanism",
        "IteratedExponentialMechanism",
        "mechanism_sentences",
        "rounds_sentences",
    },
    "pabi.describe.statistics": {
        "NoisyAccuracy",
        "NoisyColumnStatistics",
        "NoisySecondMoments",
        "accuracy_sentences",
        "column_statistics_sentences",
        "second_moments_sentences",
    },
    "pabi.describe.unlearning": {"Unlearning", "unlearning_sentences"},
    "pabi.numbers.errors": {"InvalidInput"},
    "pabi.numbers.validate": {"flag", "integer", "number"},
    "pabi.numbers.showing": {"exact", "shown"},
    # The clock over a verification, at which the accountant's readings look as well.
    "pabi.numbers.locking": {"OutOfTime", "in_time", "until"},
    # The reading of a trade-off function at one δ that a guarantee states.
    "pabi.tradeoff": {"Best", "Product", "RandomAllocation", "TradeOff"},
}
# What the page says of these besides: how they are used.
SETTINGS = {"noise_multiplier", "clip_norm", "epochs", "epsilon", "delta"}
# Numbers that the accountant's code derives from a description, and the checker reads.
DERIVED = {
    "Loss.gradient_bound",
    "NoisySGD.gradient_noise_std",
    "NoisySecondMoments.moment_noise_std",
    "NoisySGD.steps",
    "ExponentialMechanism.kappa",
    "IteratedExponentialMechanism.rounds",
    "proximal map.diameter",
}


def imported(path):
    """(module, name) of everything that a file imports from pabi but from the checker itself."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            module = node.module or ""
            if module.split(".")[0] == "pabi" and module.split(".")[1:2] != ["verification"]:
                yield from ((module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "pabi":
                    yield alias.name, "*"


def test_the_checker_imports_what_is_listed_and_nothing_else():
    found = {}
    for path in FILES:
        for module, name in imported(path):
            found.setdefault(module, set()).add(name)
    assert found == SHARED


def test_nothing_is_imported_by_a_name_that_is_put_together():
    """But the files of the checker's own folders."""
    for path in FILES:
        loads = {"import_module", "__import__", "exec", "eval"}
        called = {
            getattr(node.func, "attr", getattr(node.func, "id", None))
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        }
        assert not called & loads or path.name == "discovery.py", path


def described():
    """Every class that a module of pabi.describe defines."""
    for module in pkgutil.iter_modules(describe.__path__, "pabi.describe."):
        for owner in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(owner) and owner.__module__ == module.name:
                yield owner


def watched(given, name, found):
    """What a class derives, noting whether the checker reads it: a property, or a method."""
    lazy = isinstance(given, functools.cached_property)
    derive = given.func if lazy else getattr(given, "fget", given)

    def noting(self, *args, **kwargs):
        if Path(sys._getframe(1).f_code.co_filename).is_relative_to(SOURCES):
            found.add(name)
        return derive(self, *args, **kwargs)

    return noting if derive is given else property(noting)


def test_the_checker_reads_no_other_derived_number(monkeypatch):
    """Of all that the classes of descriptions compute, on every kind of file."""
    files = [path.read_text() for path in DATA]
    run = pabi.NoisySGD(
        pabi.Loss.softmax(1.0),
        n=100,
        batches=pabi.Cyclic(10),
        epochs=3,
        step_size=0.1,
        noise_multiplier=2.0,
        prox=pabi.prox.ball(2.0),
    )
    files.append(run.guarantee(1e-5).to_json())
    moments = pabi.NoisySecondMoments(100, 3, 1.0, noise_multiplier=9.0)
    files.append(moments.guarantee(1e-5).to_json())
    files.append(pabi.NoisyAccuracy(100, 0.1).guarantee(1e-5).to_json())
    levels = pabi.NoisyColumnStatistics(100, 3, "levels", noise_std=9.0, threshold=3.0)
    files.append(levels.guarantee(1e-5).to_json())
    found, owners = set(), set(described())
    assert {pabi.NoisySGD, pabi.Loss, pabi.Cyclic, pabi.LangevinChain, pabi.prox.ball} <= owners
    assert pabi.NoisySecondMoments in owners
    for owner in owners:
        for name, given in list(vars(owner).items()):
            derived = isinstance(given, property | functools.cached_property)
            if name.startswith("__") or not (derived or inspect.isfunction(given)):
                continue
            whose = "proximal map" if issubclass(owner, pabi.prox.ProximalMap) else owner.__name__
            monkeypatch.setattr(owner, name, watched(given, f"{whose}.{name}", found))
    for file in files:
        verdict = pabi.verify(file)
        assert verdict.ok, verdict.reason
    assert found == DERIVED


def test_the_page_names_all_that_is_shared_and_nothing_else():
    """The left column of the table in docs, "Certificates", section "What the checker shares"."""
    page = (Path(__file__).parents[2] / "docs" / "certificates.md").read_text(encoding="utf-8")
    section = page.split("\n## What the checker shares\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| ")]
    told = {name for row in rows for name in re.findall("`([^`]+)`", row)}
    assert told - SETTINGS == set().union(*SHARED.values()) | DERIVED
    assert told >= SETTINGS
