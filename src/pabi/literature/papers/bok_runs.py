"""Bok, Su and Altschuler: tables and figures of full batches, logistic regression and accuracies."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from pabi.account.calibration import calibrate
from pabi.convert import clt_mu, gdp_to_epsilon, rdp_to_epsilon
from pabi.describe.batches import Cyclic, FixedSize, FullBatch
from pabi.describe.files import to_dict
from pabi.describe.iteration import NoisyIteration
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.literature import bok, ye_shokri
from pabi.literature.papers import Artefact, Entry, Part, PrintedTable, Settings, printed
from pabi.numbers.showing import as_printed, exact
from pabi.show.themes import Curve, Figure, Panel
from pabi.tradeoff import Gaussian

# Bok, Su, Altschuler 2024, *Shifted Interpolation for Differential Privacy*.


BOK = "Bok, Su, Altschuler 2024"

# What the tables and figures have in common: μ as proven, trade-off curves on the left, ε on the right.


Length = Callable[[int], float]

FPR = np.unique(np.concatenate([np.geomspace(1e-4, 0.04, 12), np.linspace(0.0, 1.0, 51)])).tolist()
DELTA = 1e-5
DELTAS = (1e-3, DELTA)
DASHES = ("-", "--", ":", "-.")


def proven(run: NoisySGD | NoisyIteration) -> float:
    """μ of the best guarantee of a run, by optimal shifts."""
    mu = run.guarantee(DELTA).mu
    assert mu is not None
    return mu


def gaussian(mu: float, label: str, colour: int | None, dash: str = "-") -> Curve:
    """The trade-off curve G(μ)."""
    values = np.asarray(Gaussian(mu)(np.array(FPR)))
    return Curve(label, FPR, values.tolist(), colour, dash)


def tradeoffs(curves: Sequence[Curve]) -> Panel:
    """Type II against type I error."""
    return Panel("f-DP", "type I error", "type II error", curves, equal=True)


def epsilons(lengths: Sequence[int], unit: str, ours: Length, composition: Length) -> Panel:
    """ε at each δ against the number of `unit`; `ours` and `composition`: μ of a run of that length."""
    curves = []
    for name, mu, colour in (("last iterate", ours, 0), ("composition", composition, 1)):
        for delta, dash in zip(DELTAS, DASHES, strict=False):
            values = [gdp_to_epsilon(mu(k), delta) for k in lengths]
            label = f"{name}, δ = {exact(delta)}"
            curves.append(Curve(label, list(lengths), values, colour, dash, marker="o"))
    return Panel("(ε, δ)-DP", unit, "ε", curves, log="x")


def growth(
    ours: Length,
    composition: Length,
    *,
    title: str,
    figure: int,
    unit: str,
    left: Sequence[int],
    right: Sequence[int],
    limit: tuple[str, int] | None = None,
    remark: str = "",
) -> Artefact:
    """A figure of how privacy is spent with a run's length, by the last iterate and by composition.

    `unit`: name and letter of a length, "steps t". `left`, `right`: the lengths that are drawn. `limit`:
    label and length of the one curve of the last iterate on the left; by default one for each length.
    """

    def assemble(results: Mapping[str, Any]) -> Figure:
        letter, pairs = unit[-1], list(zip(left, DASHES, strict=False))
        if limit is None:
            drawn = [
                gaussian(ours(k), f"last iterate, {letter} = {k}", 0, dash) for k, dash in pairs
            ]
        else:
            drawn = [gaussian(ours(limit[1]), limit[0], 0)]
        drawn += [
            gaussian(composition(k), f"composition, {letter} = {k}", 1, dash) for k, dash in pairs
        ]
        return Figure((tradeoffs(drawn), epsilons(right, unit, ours, composition)), remark)

    return Artefact(title, f"{BOK}, Figure {figure}", assemble)


# Tables 1, 3 and 4: privacy of regularised logistic regression on MNIST, in batches of 1500.


EPOCHS = (50, 100, 200)
L2 = (0.002, 0.004)
N, SIZE, STEP_SIZE, NOISE_STD, SENSITIVITY = 60_000, 1_500, 0.05, 0.01, 10.0
STEPS = N // SIZE  # an epoch
# Gradients of softmax regression are at most √2 times as long as the features: rows of norm 5/√2 have a
# sensitivity of 10, as the paper's clipped gradients do.
FEATURE_NORM = 0.5 * SENSITIVITY / 2.0**0.5

# Epochs: composition of NoisyCGD and of NoisySGD; the paper's bound by λ, after RDP in Table 4.
TABLE_3 = {
    50: ("4.71", "1.03", {0.002: "0.99", 0.004: "0.99"}),
    100: ("6.67", "1.45", {0.002: "1.24", 0.004: "1.22"}),
    200: ("9.43", "2.05", {0.002: "1.59", 0.004: "1.51"}),
}
TABLE_4 = {
    50: ("30.51", "4.44", {0.002: ("5.82", "4.34"), 0.004: ("5.61", "4.32")}),
    100: ("49.88", "6.65", {0.002: ("7.61", "5.60"), 0.004: ("7.00", "5.51")}),
    200: ("83.83", "10.11", {0.002: ("9.88", "7.58"), 0.004: ("8.38", "7.09")}),
}

SAMPLED = (
    "This charges for every iterate of NoisySGD. The paper's ε is numerical, to 0.001. Its μ comes from the "
    "central limit theorem, which is an approximation and no guarantee."
)
CLIPPED = (
    "The guarantee is that of a training whose features have norm at most 5/√2. The paper instead "
    "clips the gradients of softmax regression at 5, and steps with such gradients can expand. See the "
    "errata in the docs."
)


def run(epochs: int, l2: float) -> NoisySGD:
    """NoisyCGD with bounded features."""
    loss = Loss.softmax(feature_norm=FEATURE_NORM, l2=l2)
    return NoisySGD(
        loss, n=N, batches=Cyclic(SIZE), epochs=epochs, step_size=STEP_SIZE, noise_std=NOISE_STD
    )


def parts(settings: Settings) -> Mapping[str, Part]:
    """What pabi proves of every run, and ε of NoisySGD by composition."""
    work: dict[str, Part] = {}
    for epochs in EPOCHS:
        drawn = {"probability": SIZE / N, "mu": 2.0 / 3.0, "steps": STEPS * epochs, "delta": DELTA}
        work[f"sampled {epochs}"] = Part("sampled_composition", drawn)
        for l2 in L2:
            described = {"run": to_dict(run(epochs, l2)), "delta": DELTA}
            work[f"{epochs} {l2}"] = Part("proven", described)
    return work


def composition(epochs: int) -> float:
    """μ of NoisyCGD by composition."""
    return float(bok.theorem_4_4(L=SENSITIVITY, b=SIZE, noise_std=NOISE_STD, epochs=epochs))


def approximate_mu(epochs: int) -> float:
    """μ of NoisySGD by composition and the central limit theorem."""
    return clt_mu(SIZE / N, SENSITIVITY / (SIZE * NOISE_STD), STEPS * epochs)


def epsilon_by_renyi(epochs: int, l2: float) -> float:
    """ε of NoisyCGD by Ye and Shokri's Rényi bound."""
    divergence = ye_shokri.theorem_3_3(
        L=SENSITIVITY,
        b=SIZE,
        noise_std=NOISE_STD,
        slope=1.0 - STEP_SIZE * l2,
        batches_per_epoch=STEPS,
        epochs=epochs,
        order=2.0,
    )
    return rdp_to_epsilon(rho=0.5 * float(divergence), delta=DELTA)


def _entry(
    epochs: int, l2: float | str, quantity: str, printed: str, ours: Any, remark: str = ""
) -> Entry:
    return Entry({"epochs": epochs, "λ": l2}, quantity, printed, float(ours), remark=remark)


def _table_1(results: Mapping[str, Any]) -> Iterator[Entry]:
    """What Table 4 says of NoisyCGD at the smaller λ."""
    l2 = L2[0]
    for epochs, (composed, _, bounds) in TABLE_4.items():
        renyi, bound = bounds[l2]
        every = gdp_to_epsilon(composition(epochs), DELTA)
        proven = results[f"{epochs} {l2}"]["epsilon"]
        yield from (
            _entry(epochs, l2, "ε, GDP composition", composed, every),
            _entry(epochs, l2, "ε, RDP", renyi, epsilon_by_renyi(epochs, l2)),
            _entry(epochs, l2, "ε, the last iterate", bound, proven),
        )


def _table_3(results: Mapping[str, Any]) -> Iterator[Entry]:
    for epochs, (cyclic, sampled, bounds) in TABLE_3.items():
        every, drawn = composition(epochs), approximate_mu(epochs)
        yield from (
            _entry(epochs, "any", "μ, GDP composition, NoisyCGD", cyclic, every),
            _entry(epochs, "any", "μ, GDP composition, NoisySGD", sampled, drawn, SAMPLED),
        )
        for l2, bound in bounds.items():
            proven = results[f"{epochs} {l2}"]["mu"]
            yield _entry(epochs, l2, "μ, the last iterate, NoisyCGD", bound, proven)


def _table_4(results: Mapping[str, Any]) -> Iterator[Entry]:
    for epochs, (cyclic, sampled, bounds) in TABLE_4.items():
        every, drawn = gdp_to_epsilon(composition(epochs), DELTA), results[f"sampled {epochs}"]
        yield from (
            _entry(epochs, "any", "ε, GDP composition, NoisyCGD", cyclic, every),
            _entry(epochs, "any", "ε, GDP composition, NoisySGD", sampled, drawn, SAMPLED),
        )
        for l2, (renyi, bound) in bounds.items():
            proven = results[f"{epochs} {l2}"]["epsilon"]
            earlier = epsilon_by_renyi(epochs, l2)
            yield from (
                _entry(epochs, l2, "ε, RDP, NoisyCGD", renyi, earlier),
                _entry(epochs, l2, "ε, the last iterate, NoisyCGD", bound, proven),
            )


# Tables 2, 5 and 6: accuracies on MNIST.


# As the paper trains: rows within norm 8, then a constant 1, gradients clipped at 5.
ROW_NORM, CONSTANT, CLIP_NORM = 8.0, 1.0, 5.0
# As pabi's guarantee needs it: bounded features and no clipping; larger steps for smaller features.
OUR_ROW_NORM, OUR_CONSTANT, OUR_STEP_SIZE = 1.0, 0.5, 3.0
A_POINT = 1.0  # of accuracy, in percent

# Epochs: NoisyCGD at both λ, NoisySGD at both.
TABLE_5 = {
    50: ("89.36 ± 0.03", "89.23 ± 0.02", "89.36 ± 0.04", "89.22 ± 0.04"),
    100: ("90.24 ± 0.03", "90.00 ± 0.03", "90.25 ± 0.02", "89.99 ± 0.03"),
    200: ("90.85 ± 0.02", "90.39 ± 0.04", "90.84 ± 0.03", "90.37 ± 0.02"),
}
TABLE_6 = {
    50: ("90.12 ± 0.04", "90.03 ± 0.07", "90.12 ± 0.08", "90.00 ± 0.06"),
    100: ("90.94 ± 0.07", "90.70 ± 0.05", "90.97 ± 0.04", "90.75 ± 0.03"),
    200: ("91.37 ± 0.08", "91.02 ± 0.07", "91.40 ± 0.07", "91.01 ± 0.04"),
}

REMARK = (
    'The column "ours" is the paper\'s training, executed by pabi. Clipping the gradients of softmax '
    "regression breaks the contraction that the paper's ε rests on, so this training has no such "
    'guarantee (see the errata in the docs). The column "pabi" is a training with cyclic batches, '
    "steps of size 3, and features of norm at most 1 and a constant 1/2 in place of clipping. Its "
    "noise is calibrated so that the paper's ε (Table 4, λ = 0.002) is proven. Every accuracy is a "
    "mean over the trainings. Accuracies on the training set are shown because MNIST is public."
)
Algorithm = Literal["NoisyCGD", "NoisySGD"]
# An algorithm and its λ, in the order of the columns; Table 2 has the first.
Cell = tuple[Algorithm, float]
CELLS: tuple[Cell, ...] = (
    *(("NoisyCGD", l2) for l2 in L2),
    *(("NoisySGD", l2) for l2 in L2),
)


def clipped(algorithm: Algorithm, epochs: int, l2: float) -> NoisySGD:
    """The paper's training. Nothing is claimed of the loss: the description is executed, not accounted."""
    batches = Cyclic if algorithm == "NoisyCGD" else FixedSize
    return NoisySGD(
        Loss.unknown().with_l2(l2),
        n=N,
        batches=batches(SIZE),
        epochs=epochs,
        step_size=STEP_SIZE,
        noise_std=NOISE_STD,
        clip_norm=CLIP_NORM,
    )


def bounded_accuracies(epochs: int) -> NoisySGD:
    """pabi's training, at the ε that the paper prints for cyclic batches and λ = 0.002."""
    norm = float(np.nextafter((OUR_ROW_NORM**2 + OUR_CONSTANT**2) ** 0.5, np.inf))
    run = NoisySGD(
        Loss.softmax(feature_norm=norm),
        n=N,
        batches=Cyclic(SIZE),
        epochs=epochs,
        step_size=OUR_STEP_SIZE,
    )
    epsilon = float(TABLE_4[epochs][2][0.002][1])
    return calibrate(run, epsilon, DELTA)


def _parts(cells: tuple[Cell, ...], settings: Settings) -> Mapping[str, Part]:
    """Every training of every kind, by seed."""
    work = {}
    for epochs in EPOCHS:
        runs = {
            "pabi " + str(epochs): (to_dict(bounded_accuracies(epochs)), OUR_ROW_NORM, OUR_CONSTANT)
        }
        for algorithm, l2 in cells:
            run = to_dict(clipped(algorithm, epochs, l2))
            runs[f"{algorithm} {epochs} {l2}"] = (run, ROW_NORM, CONSTANT)
        for seed in range(settings.runs):
            for name, (run, norm, constant) in runs.items():
                training = {
                    "run": run,
                    "mnist": settings.mnist,
                    "feature_norm": norm,
                    "intercept": constant,
                    "seed": seed,
                }
                work[f"{name} {seed}"] = Part("trained", training)
    return work


def _entries(
    results: Mapping[str, Any],
    measure: str,
    cells: tuple[Cell, ...],
    printed: Mapping[int, tuple[str, ...]],
) -> list[Entry]:
    """`measure`: "train" or "test". `printed`: a row of these cells by epochs."""
    entries = []
    for epochs, row in printed.items():
        proven = _values(results, f"pabi {epochs}", measure)
        for (algorithm, l2), accuracy in zip(cells, row, strict=False):
            values = _values(results, f"{algorithm} {epochs} {l2}", measure)
            where = {
                "epochs": epochs,
                "λ": l2,
                "algorithm": algorithm,
                "trainings": len(values),
                "± ours": as_printed(np.std(values), 2),
            }
            ours = proven.mean() if (algorithm, l2) == CELLS[0] else None
            name = f"{measure} accuracy, %"
            entries.append(Entry(where, name, accuracy, float(values.mean()), ours, within=A_POINT))
    return entries


def _values(results: Mapping[str, Any], start: str, measure: str) -> Any:
    """(trainings,) accuracies of the trainings of this name, in percent."""
    return np.array(
        [result[measure] for name, result in results.items() if name.rpartition(" ")[0] == start]
    )


def _table(
    cells: tuple[Cell, ...],
    printed: Mapping[str, Mapping[int, tuple[str, ...]]],
    results: Mapping[str, Any],
) -> PrintedTable:
    entries = [e for name, rows in printed.items() for e in _entries(results, name, cells, rows)]
    return PrintedTable(tuple(entries), REMARK)


# Full batches: μ on strongly convex losses, and where it stops growing on a bounded domain.


def composed(steps: int, *, sensitivity: float, noise_std: float = 1.0) -> float:
    """μ by composition. `sensitivity`: L/n."""
    return float(bok.theorem_4_1(L=sensitivity, n=1, noise_std=noise_std, steps=steps))


# Table 7 and Figure 6: strongly convex losses.

SENSITIVITY_FULL = 0.1  # L/(nσ)
SLOPES = (0.92, 0.96, 0.98, 0.99, 0.995)
TABLE_7 = {  # steps: composition, then by slope
    10: ("0.316", "0.308", "0.314", "0.316", "0.316", "0.316"),
    100: ("1.000", "0.490", "0.688", "0.871", "0.961", "0.990"),
    1000: ("3.162", "0.490", "0.700", "0.995", "1.411", "1.984"),
}


def contracting(steps: int, slope: float = 0.99) -> float:
    """μ of steps of this slope."""
    return proven(
        NoisyIteration(
            contraction=slope, step_sensitivity=SENSITIVITY_FULL, step_noise_std=1.0, steps=steps
        )
    )


def _table_7(results: Mapping[str, Any]) -> Iterator[Entry]:
    for steps, (composition, *bounds) in TABLE_7.items():
        every = composed(steps, sensitivity=SENSITIVITY_FULL)
        where: dict[str, str | float] = {"steps": steps, "c": "any"}
        yield Entry(where, "μ, GDP composition", composition, every)
        for slope, bound in zip(SLOPES, bounds, strict=True):
            where = {"steps": steps, "c": slope}
            yield Entry(where, "μ, the last iterate", bound, contracting(steps, slope))


# Table 8 and Figure 7: convex losses on a bounded domain.

DIAMETER, NOISE_STD_FULL = 1.0, 8.0
STEP_SIZES = (0.2, 0.1, 0.05)
TABLE_8 = {  # L/n: (t*, μ*) by step size
    0.25: (("80", "0.280"), ("160", "0.395"), ("320", "0.559")),
    0.5: (("40", "0.395"), ("80", "0.559"), ("160", "0.791")),
    1.0: (("20", "0.559"), ("40", "0.791"), ("80", "1.118")),
}
FOREVER = 100_000
# μ for ever may differ from an earlier equal one by roundings.
_ALMOST = 1.0 - 1e-12


def bounded(steps: int, *, sensitivity: float, step_size: float) -> float:
    """μ of nonexpansive steps on the domain. `sensitivity`: L/n."""
    return proven(
        NoisyIteration(
            contraction=1.0,
            step_sensitivity=step_size * sensitivity,
            step_noise_std=step_size * NOISE_STD_FULL,
            diameter=DIAMETER,
            steps=steps,
        )
    )


def threshold(sensitivity: float, step_size: float) -> int:
    """The least number of steps at which μ is what it is for ever, by bisection: μ never falls."""
    mu = partial(bounded, sensitivity=sensitivity, step_size=step_size)
    forever = mu(FOREVER) * _ALMOST
    return bisect_left(range(FOREVER), True, lo=1, key=lambda steps: mu(steps) >= forever)


def _table_8(results: Mapping[str, Any]) -> Iterator[Entry]:
    for sensitivity, row in TABLE_8.items():
        for step_size, (steps, bound) in zip(STEP_SIZES, row, strict=True):
            where = {"L/n": sensitivity, "η": step_size}
            settled = threshold(sensitivity, step_size)
            theorem = bok.theorem_4_3(
                L=sensitivity,
                n=1,
                noise_std=NOISE_STD_FULL,
                step_size=step_size,
                diameter=DIAMETER,
                steps=settled,
            )
            best = bounded(FOREVER, sensitivity=sensitivity, step_size=step_size)
            yield from (
                Entry(where, "t*, steps", steps, settled),
                Entry(where, "μ*", bound, float(theorem), best),
            )


_SETTLED = (
    'The column "ours" has the number of steps at which μ by optimal shifts stops growing, and μ by '
    'Theorem 4.3. The column "pabi" has μ by optimal shifts for any number of steps.'
)


# Figure 1: Rényi bounds beside them.

STEP_SIZE_FULL, CONVEXITY, SMOOTHNESS = 0.05, 1.0, 10.0
LENGTHS = (10, 20, 40, 80, 160)


def smooth(steps: int) -> float:
    """μ of the run of Figure 1."""
    loss = Loss.strongly_convex(strong_convexity=CONVEXITY, smoothness=SMOOTHNESS)
    return proven(
        NoisySGD(
            loss,
            n=1,
            batches=FullBatch(),
            steps=steps,
            step_size=STEP_SIZE_FULL,
            noise_std=1.0,
            gradient_sensitivity=SENSITIVITY_FULL,
        )
    )


def epsilon_by_renyi_full(steps: int) -> float:
    """ε of the earlier Rényi bound."""
    divergence = ye_shokri.theorem_d_6(
        L=SENSITIVITY_FULL,
        n=1,
        noise_std=1.0,
        strong_convexity=CONVEXITY,
        step_size=STEP_SIZE_FULL,
        steps=steps,
        order=1.0,
    )
    return rdp_to_epsilon(rho=float(divergence), delta=DELTA)


def _figure_1(results: Mapping[str, Any]) -> Figure:
    delta, every = DELTA, partial(composed, sensitivity=SENSITIVITY_FULL)
    mus = [smooth(t) for t in LENGTHS]
    left = tradeoffs(
        [
            gaussian(0.0, "perfect privacy", None, ":"),
            gaussian(mus[-1], "last iterate (exact)", 0),
            gaussian(every(LENGTHS[-1]), "composition", 1, "--"),
            gaussian(10.0, "no privacy", None, "-."),
        ]
    )
    lines = (
        ("last iterate (exact)", [gdp_to_epsilon(mu, delta) for mu in mus], 0, "-"),
        ("the same by Rényi", [rdp_to_epsilon(rho=0.5 * u**2, delta=delta) for u in mus], 2, "-."),
        ("earlier Rényi bound", [epsilon_by_renyi_full(t) for t in LENGTHS], 3, ":"),
        ("composition", [gdp_to_epsilon(every(t), delta) for t in LENGTHS], 1, "--"),
    )
    drawn = [
        Curve(name, LENGTHS, values, colour, dash, marker="o")
        for name, values, colour, dash in lines
    ]
    return Figure((left, Panel(f"ε at δ = {exact(delta)}", "iterations", "ε", drawn, log="x")))


STEPS_FULL = (10, 20, 40, 80, 160, 320, 640)


ARTEFACTS = {
    **{
        f"bok/table-{number}": Artefact(
            title,
            f"{BOK}, Table {number}",
            partial(_table, cells, printed),
            partial(_parts, cells),
            trains=True,
        )
        for number, title, cells, printed in (
            (2, "Accuracy of NoisyCGD on MNIST", CELLS[:1], {"train": TABLE_5, "test": TABLE_6}),
            (5, "Training accuracy on MNIST", CELLS, {"train": TABLE_5}),
            (6, "Test accuracy on MNIST", CELLS, {"test": TABLE_6}),
        )
    },
    "bok/table-1": Artefact(
        "ε of NoisyCGD on MNIST at δ = 1e-5",
        f"{BOK}, Table 1",
        printed(_table_1, CLIPPED),
        parts,
    ),
    "bok/table-3": Artefact(
        "GDP parameters on MNIST", f"{BOK}, Table 3", printed(_table_3, CLIPPED), parts
    ),
    "bok/table-4": Artefact(
        "ε on MNIST at δ = 1e-5, by algorithm and regulariser",
        f"{BOK}, Table 4",
        printed(_table_4, CLIPPED),
        parts,
    ),
    "bok/table-7": Artefact(
        "μ of NoisyGD, strongly convex losses, L/(nσ) = 0.1",
        f"{BOK}, Table 7",
        printed(_table_7),
    ),
    "bok/table-8": Artefact(
        "When μ of NoisyGD stops growing, D = 1, σ = 8",
        f"{BOK}, Table 8",
        printed(_table_8, _SETTLED),
    ),
    "bok/figure-1": Artefact(
        "NoisyGD on strongly convex losses: exact against composition",
        f"{BOK}, Figure 1",
        _figure_1,
    ),
    "bok/figure-6": growth(
        contracting,
        partial(composed, sensitivity=SENSITIVITY_FULL),
        title="NoisyGD, strongly convex losses, c = 0.99, L/(nσ) = 0.1",
        figure=6,
        unit="steps t",
        left=(10, 100, 1000),
        right=STEPS_FULL,
    ),
    "bok/figure-7": growth(
        partial(bounded, sensitivity=0.5, step_size=0.1),
        partial(composed, sensitivity=0.5, noise_std=NOISE_STD_FULL),
        title="NoisyGD, convex losses, D = 1, σ = 8, L/n = 0.5, η = 0.1",
        figure=7,
        unit="steps t",
        left=(80, 160, 320),
        right=STEPS_FULL,
        limit=("last iterate, t ≥ 80", FOREVER),
        remark=(
            "At t = 80 the two curves on the left are the same. For more steps Theorem 4.3 has the "
            "smaller μ."
        ),
    ),
}
