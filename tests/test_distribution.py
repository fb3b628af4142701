"""The wheel, built from the sdist, installed where there is no repository, and used."""

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import pabi
from pabi.describe.files import from_dict
from support.scripts import load

ROOT = Path(__file__).resolve().parents[1]
RELEASE = load(ROOT / "benchmarks" / "release.py")
OFFLINE = ("Failed to establish a new connection", "NameResolutionError", "Temporary failure")
RUN = """
n = 60_000
epochs = 50
step_size = 0.05
noise_std = 0.002

[loss]
kind = "logistic"
feature_norm = 1.0
l2 = 0.002

[batches]
kind = "shuffle_once"
size = 1_500
"""


def call(*command, cwd, **options):
    """What a command prints, without a trace of this repository in its environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PABI"))}
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=kept, capture_output=True, text=True, **options
    )
    if done.returncode and any(sign in done.stderr + done.stdout for sign in OFFLINE):
        pytest.skip("no package index can be reached, so that nothing can be installed")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_release_has_one_date_and_is_tried_under_every_python_that_it_names():
    assert f"## {pabi.__version__} — {RELEASE.released_on()}\n" in (
        ROOT / "CHANGELOG.md"
    ).read_text(encoding="utf-8")
    lowest, *others = RELEASE.lines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = {c.rpartition(" ")[2] for c in project["classifiers"] if ":: Python :: 3." in c}
    assert {line.python for line in others} == named
    assert lowest.python == project["requires-python"].removeprefix(">=")
    assert len(lowest.constraints) == len(project["dependencies"])


def test_a_python_that_is_not_here_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(RELEASE, "interpreter", lambda version: None)
    told = list(RELEASE.rows([tmp_path / "a.whl"], tmp_path))
    assert len(told) == len(RELEASE.lines())
    for line, text in zip(RELEASE.lines(), told, strict=True):
        assert text == f"{line.name}: not tried, there is no Python {line.python} here"


IN_CONDA = {"matplotlib-base": "matplotlib"}  # what conda calls otherwise


def test_the_recipe_for_conda_needs_what_the_package_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text("utf-8"))
    needed = {f"python{project['project']['requires-python']}", *project["project"]["dependencies"]}
    run = [requirement.split(" ") for requirement in recipe["requirements"]["run"]]
    assert {IN_CONDA.get(name, name) + bound for name, bound in run} == needed
    host = {requirement.split(" ")[0] for requirement in recipe["requirements"]["host"]}
    assert host == {"python", "pip", *project["build-system"]["requires"]}
    assert recipe["context"]["version"] == pabi.__version__
    assert recipe["about"]["summary"] == project["project"]["description"]
    assert recipe["about"]["license"] == project["project"]["license"]
    entries = recipe["build"]["python"]["entry_points"]
    assert dict(entry.split(" = ") for entry in entries) == project["project"]["scripts"]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def installed(distributions, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean")
    call(sys.executable, "-m", "venv", folder / "env", cwd=folder)
    bin_folder = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = bin_folder / "python"
    call(python, "-m", "pip", "install", "--quiet", "--no-compile", distributions[0], cwd=folder)
    return folder, bin_folder


def test_version_and_contents(distributions):
    major, minor, patch = pabi.__version__.split(".")
    assert all(part.isdigit() for part in (major, minor, patch))
    wheel, sdist = distributions
    assert wheel.name.startswith(f"pabi-{pabi.__version__}-py3-none-any")
    assert sdist.name == f"pabi-{pabi.__version__}.tar.gz"
    assert f"version: {pabi.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {pabi.__version__} — " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"pabi", f"pabi-{pabi.__version__}.dist-info"}
    assert "pabi/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
        "Makefile",
        "docs/theory/index.md",
    }
    wanted |= {"recipe/recipe.yaml", "benchmarks/release.py"}
    assert wanted <= inside
    assert "tests/test_distribution.py" in inside
    assert not any(".venv" in name or "_build" in name for name in inside)


def test_the_wheel_works_without_the_repository(installed):
    folder, bin_folder = installed
    where = call(bin_folder / "python", "-c", "import pabi; print(pabi.__file__)", cwd=folder)
    assert str(folder / "env") in where
    RELEASE.tried(bin_folder / "python", folder)
    command = bin_folder / "pabi"
    (folder / "run.toml").write_text(RUN, encoding="utf-8")
    told = call(command, "account", "run.toml", "--delta", "1e-5", "--json", cwd=folder)
    here = from_dict(tomllib.loads(RUN)).guarantee(1e-5).epsilon(1e-5)
    assert json.loads(told)["epsilon"] == pytest.approx(here, rel=1e-9)
    (folder / "guarantee.json").write_text(told, encoding="utf-8")
    accepted = call(
        command, "verify", "guarantee.json", "--epsilon", "3.5", "--delta", "1e-5", cwd=folder
    )
    assert "accepted" in accepted
    call(command, "reproduce", "bok/table-7", "bok/figure-6", cwd=folder)
    assert (folder / "reproduced" / "bok" / "figure-6.svg").exists()
