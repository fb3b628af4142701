"""Which bounds cover a run, what they say of it, and the picture."""

import csv
import io
import json
import math
from dataclasses import asdict, replace
from itertools import pairwise

import matplotlib
import numpy as np
import pytest

import pabi
from pabi import Cyclic, FixedSize, FullBatch, Loss, NoisyIteration, NoisySGD, Poisson
from pabi.audits import auditing
from pabi.convert import gdp_to_epsilon, rdp_to_epsilon
from pabi.describe.files import from_dict
from pabi.literature import Published, compare
from pabi.literature.axes import axis_of
from pabi.tradeoff import Gaussian, Laplace
from support.every_case import every, refused

matplotlib.use("Agg")


def run_of(loss, batches, n, step_size, noise_std, **more):
    return NoisySGD(loss, n=n, batches=batches, step_size=step_size, noise_std=noise_std, **more)


LIPSCHITZ = Loss.convex(smoothness=1.0, gradient_bound=5.0)
WEAKLY = Loss.weakly_convex(weak_convexity=0.05, smoothness=1.0)
STRONGLY = Loss.strongly_convex(strong_convexity=1.0, smoothness=2.0, gradient_bound=1.0)
LOGISTIC = Loss.convex(smoothness=1.0, l2=0.002)
MNIST = run_of(LOGISTIC, Cyclic(1_500), 60_000, 0.05, 0.01, epochs=200, gradient_sensitivity=10.0)
MNIST_CLIPPED = replace(MNIST, epochs=50, gradient_sensitivity=None, clip_norm=5.0)
CONSTRAINED = run_of(LIPSCHITZ, Cyclic(100), 2_000, 0.02, 0.3, epochs=400, diameter=0.1)
FULL = replace(CONSTRAINED, batches=FullBatch(), n=100, epochs=2_000, diameter=0.2)
CLIPPED = run_of(WEAKLY, Cyclic(100), 5_000, 0.05, 0.1, epochs=100, clip_norm=1.0, diameter=0.3)
FIXED = run_of(STRONGLY, FixedSize(100), 2_000, 0.1, 0.05, steps=60, diameter=0.3)
SMOOTH = Loss.convex(smoothness=1.0, gradient_bound=1.0)
POISSON = run_of(SMOOTH, Poisson(20), 1_000, 0.5, 0.8, steps=400, diameter=0.3)
CHAIN = NoisyIteration(
    contraction=0.97, step_sensitivity=0.0, step_noise_std=1.0, start=3.0, diameter=3.0, steps=100
)
DELTA = 1e-5


def applying(run):
    return {row.name: row for row in compare(run, DELTA) if row.applies}


def test_strongly_convex_cyclic():
    """Bok, Su, Altschuler, Table 4, third row: 83.83, 9.88 and 7.58."""
    found, own = applying(MNIST), MNIST.guarantee(DELTA)
    printed = {"bok.theorem_4_4": 83.83, "dong.corollary_3_3": 83.83, "bok.theorem_4_5": 7.58}
    printed |= {"ye_shokri.theorem_3_3": 9.88}
    assert set(found) == {"pabi", *printed}
    for name, epsilon in printed.items():
        assert found[name].epsilon == pytest.approx(epsilon, abs=5e-3)
    assert found["bok.theorem_4_5"].mu == pytest.approx(found["pabi"].mu, rel=1e-9)
    assert (found["pabi"].epsilon, found["pabi"].mu) == (own.epsilon(DELTA), own.mu)


def test_constrained_convex():
    found = applying(CONSTRAINED)
    # By hand: L/b = 0.1, η = 0.02, D = 0.1, l = 20: √(0.01 + 0.075 + 0.0005·50)/0.3.
    assert found["bok.theorem_4_6"].mu == pytest.approx(math.sqrt(0.11) / 0.3, rel=1e-12)
    assert found["bok.theorem_4_4"].mu == pytest.approx(0.1 * 20.0 / 0.3, rel=1e-12)
    assert found["pabi"].epsilon <= found["bok.theorem_4_6"].epsilon
    rho = 8.0 * 8_000 * (0.02 * 5.0 / 0.006) ** 2
    exact = rdp_to_epsilon(rho=rho, delta=DELTA)
    assert found["kong_ribero.theorem_4_3"].epsilon == pytest.approx(exact, rel=1e-9)
    full = applying(FULL)
    # L/n = 0.1: √(3·0.1·0.2/0.02 + 0.01·100)/0.3 and 0.1·√2000/0.3.
    assert full["bok.theorem_4_3"].mu == pytest.approx(2.0 / 0.3, rel=1e-12)
    assert full["bok.theorem_4_1"].mu == pytest.approx(0.1 * math.sqrt(2000.0) / 0.3, rel=1e-12)
    composed = compare(CLIPPED, DELTA)["dong.corollary_3_3"]
    assert composed.mu == pytest.approx(2.0 / (100 * 0.1) * 10.0, rel=1e-12)
    assert composed.epsilon == gdp_to_epsilon(composed.mu, DELTA)


def test_clipped_weakly_convex():
    """A refuted bound may lie below what is proven: it says so, and stands behind nothing."""
    once = replace(CLIPPED, epochs=1)
    found = applying(once)
    wrong = found["kong_ribero.theorem_4_5"]
    assert wrong.status == "refuted"
    assert "Lemma 4.2" in wrong.note
    assert wrong.epsilon < found["pabi"].epsilon
    assert found["kong_ribero.corollary_c_3"].status == "unverified"
    assert found["pabi"].status == "sound"
    assert once.guarantee(DELTA).epsilon(DELTA) == found["pabi"].epsilon
    assert not compare(once, DELTA)["kong_ribero.equation_22"].applies


def test_chains_that_differ_in_where_they_start():
    found = applying(CHAIN)
    kappa = 0.97**2
    renyi = 9.0 / sum(kappa**-k for k in range(1, 101))  # of order 2
    exact = rdp_to_epsilon(rho=0.5 * renyi, delta=DELTA)
    for name in ("bravo.theorem_3_4", "bravo.corollary_3_8"):
        assert found[name].epsilon == pytest.approx(exact, rel=1e-9)
    assert found["pabi"].mu == pytest.approx(math.sqrt(renyi), rel=1e-9)
    assert not any(row.name.startswith("bok") for row in found.values())
    others = applying(NoisyIteration(0.9, 0.1, 1.0, diameter=2.0, steps=50))
    assert set(others) == {"pabi", "bok.theorem_4_2", "bok.theorem_4_3", "dong.corollary_3_3"}
    assert others["dong.corollary_3_3"].mu == pytest.approx(0.1 * math.sqrt(50.0), rel=1e-12)
    assert others["bok.theorem_4_2"].mu == pytest.approx(others["pabi"].mu, rel=1e-9)


@pytest.mark.parametrize("run", [MNIST, CONSTRAINED, FULL, CLIPPED, FIXED, CHAIN])
def test_no_sound_bound_is_better_than_ours(run):
    """Every sound bound here is a special case of what pabi optimises over."""
    found = compare(run, DELTA)
    own = found["pabi"].epsilon
    for row in found:
        if row.applies and row.status == "sound":
            assert own <= row.epsilon * (1.0 + 1e-6), row.name


def test_sampled_batches():
    # p = 0.02, L/(bσ) = 1, c = 0.9, t = 2000, to 10⁻³ and decimals; by 4.9 at its best τ.
    found = applying(run_of(STRONGLY, FixedSize(100), 5_000, 0.1, 0.02, steps=2_000))
    assert found["bok.theorem_4_8"].epsilon == pytest.approx(7.007, rel=1e-3)
    assert found["bok.theorem_4_9"].epsilon == pytest.approx(9.873, rel=1e-3)
    assert found["pabi"].epsilon < 5.16
    fixed = applying(FIXED)
    assert {"bok.theorem_4_8", "bok.theorem_4_9", "bok.theorem_4_10"} <= set(fixed)
    assert {"asoodeh_diaz.theorem_2", "asoodeh_diaz.equation_24"} <= set(fixed)
    assert fixed["asoodeh_diaz.theorem_2"].epsilon < fixed["asoodeh_diaz.equation_24"].epsilon
    poisson = applying(POISSON)
    assert {"altschuler_talwar.theorem_3_1", "bravo.remark_5_3"} <= set(poisson)
    assert all(row.status == "unverified" for name, row in poisson.items() if name != "pabi")
    # ε of 16αL²/(n²σ²)·min{T, 2T̄}, T̄ = 150, at any order is a bound from above of the grid's best.
    rho = 16.0 / (1000.0 * 0.8) ** 2 * 300
    row = poisson["altschuler_talwar.theorem_3_1"]
    assert row.epsilon >= rdp_to_epsilon(rho=rho, delta=DELTA) * (1.0 - 1e-9)


def test_hypotheses_that_fail_are_named():
    for changes, name, reason in [
        ({"release": "path"}, "bok.theorem_4_6", "last iterate"),
        ({"update": "other"}, "bok.theorem_4_6", "plain noisy SGD"),
        ({"cooldown_steps": 3}, "bok.theorem_4_6", "cool-down"),
        ({"diameter": None}, "bok.theorem_4_6", "diameter"),
        ({"epochs": 40}, "bok.theorem_4_6", "E ≥ Db"),
        ({"n": 2_001}, "bok.theorem_4_6", "divides n"),
        ({"step_size": 2.5}, "bok.theorem_4_6", "η ≤ 2/M"),
        ({"adjacency": "zero_out"}, "kong_ribero.theorem_4_5", "replace_one"),
        ({"step_size": 0.6}, "kong_ribero.theorem_4_5", "λ ≤ 1/"),
        ({"noise_std": [0.3] * 8_000}, "bok.theorem_4_4", "constant"),
        ({}, "bok.theorem_4_5", "strongly convex"),
        ({"batches": Poisson(100, cap=200)}, "bravo.theorem_5_2", "cap"),
        ({}, "bok.theorem_4_8", "fixed size"),
        ({}, "bravo.theorem_5_2", "Poisson"),
    ]:
        row = compare(replace(CONSTRAINED, **changes), DELTA)[name]
        assert not row.applies, (changes, name)
        assert row.epsilon is None, (changes, name)
        assert row.mu is None, (changes, name)
        assert reason in row.note, (changes, name)


def test_the_table():
    comparison = compare(CONSTRAINED, DELTA)
    text = comparison.table(every=True)
    lines = text.splitlines()
    assert len(lines) == len(comparison) + 1
    assert all(row.source in text for row in comparison)
    known = [row for row in comparison if row.applies]
    *short, last = str(comparison).splitlines()  # what does not apply is one line
    assert len(short) == len(known) + 1
    assert last.startswith(f"{len(comparison) - len(known)} bounds do not apply: print(")
    assert "ε at δ = 1e-05" in lines[0]
    assert lines[1].startswith("pabi, shifted interpolation")
    assert any("refuted" in line and "Theorem 4.5" in line for line in lines)
    assert all(b.epsilon >= a.epsilon * (1.0 - 1e-8) for a, b in pairwise(known))
    applies = [row.applies for row in comparison]
    assert applies == sorted(applies, reverse=True)
    with pytest.raises(KeyError):
        comparison["nobody"]
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(pabi.InvalidInput, match="delta"):
            compare(CONSTRAINED, delta)


def test_an_exact_instance_refutes_what_is_below_it():
    found = compare(MNIST, DELTA, also={"too small": 0.1, "enough": 99.0}, instance=True)
    least = found["exact instance"]
    assert (least.status, least.applies) == ("attained", True)
    assert 0.1 < least.epsilon <= found["pabi"].epsilon
    assert least.epsilon == auditing.worst(MNIST, DELTA)[1].epsilon(DELTA)
    assert found["too small"].status == "refuted"
    assert "attain" in found["too small"].note
    assert found["enough"].status == "stated"
    assert all(
        row.epsilon >= least.epsilon for row in found if row.applies and row.status == "sound"
    )
    assert "exact instance" in str(found)
    with pytest.raises(KeyError, match=r"no row has this name; those that apply are pabi, "):
        compare(MNIST, DELTA)["exact instance"]
    for instance in (False, True):  # a row of that name is rounded down
        with pytest.raises(pabi.InvalidInput, match="names that no bound has"):
            compare(MNIST, DELTA, also={"exact instance": 1.0}, instance=instance)
    none = compare(CHAIN, DELTA, instance=True)["exact instance"]
    assert (none.applies, none.note) == (False, "an exact instance is known of noisy SGD only")


def test_an_exact_instance_refutes_along_an_axis_too():
    """A bound that forgets all uses but the last holds for one epoch; its word is kept there alone."""

    def forgetful(run):
        mu = run.sensitivity / (run.batch_size * run.gradient_noise_std)
        return Published(mu, "gdp", "sound", "a draft", "Doe 2026")

    found = compare(MNIST, DELTA, also={"draft": forgetful}, instance=True)
    rows = found.to_dict("epochs", [1, 100])["rows"]
    assert [row["status"] for row in rows if row["name"] == "draft"] == ["sound", "refuted"]
    exact = [row["epsilon"] for row in rows if row["name"] == "exact instance"]
    longer = compare(replace(MNIST, epochs=100), DELTA, instance=True)
    assert exact[1] == longer["exact instance"].epsilon
    _, lines = drawn(found, values=[1, 100])
    assert list(lines["exact instance, attained"].get_ydata()) == exact


def drawn(comparison, **axis):
    import matplotlib.pyplot as plt

    ax = comparison.plot(**axis)
    plt.close(ax.figure)
    return ax, {line.get_label(): line for line in ax.get_lines()}


def test_the_picture():
    ax, lines = drawn(compare(CONSTRAINED, DELTA))
    ours = lines["pabi, shifted interpolation"]
    others = [line for label, line in lines.items() if not label.startswith("pabi")]
    assert ours.get_linewidth() > max(line.get_linewidth() for line in others)
    for label, line in lines.items():
        assert line.is_dashed() == ("refuted" in label or "unverified" in label), label
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_xlabel() == "epochs"
    assert "1e-05" in ax.get_ylabel()
    x, y = ours.get_data()
    assert (x[0], x[-1]) == (1.0, 400.0)
    ends = [replace(CONSTRAINED, epochs=e).guarantee(DELTA).epsilon(DELTA) for e in (1, 400)]
    assert [y[0], y[-1]] == ends
    # Theorem 4.6 starts where its hypothesis E ≥ Db/(ηL) = 50 does.
    label = next(label for label in lines if "4.6" in label)
    x, y = lines[label].get_data()
    assert all(math.isnan(value) == (epochs < 50) for epochs, value in zip(x, y, strict=True))
    # Two names of composition share one line.
    assert any("Thm 4.4" in label and "Dong" in label for label in lines)
    ax, lines = drawn(compare(CHAIN, DELTA))
    assert ax.get_xlabel() == "steps"
    assert len(lines) >= 4
    _, lines = drawn(compare(replace(MNIST, epochs=None, steps=80), DELTA))
    assert list(lines["Bok et al., Thm 4.5"].get_data()[0]) == [1.0, 2.0]
    with pytest.raises(pabi.InvalidInput, match="varying"):
        compare(replace(CONSTRAINED, noise_std=[0.3] * 8_000), DELTA).plot()


def test_pictures_along_other_axes():
    """More noise, and a larger δ, lessen ε. What is known at the run's own δ only is a marker there."""
    found, multiplier = compare(MNIST_CLIPPED, DELTA, also={"stated": 1.0}), 0.01 * 1_500 / 5.0
    for along, label, values, own in (
        ("noise_multiplier", "noise multiplier", [1.0, 2.0, 4.0], multiplier),
        ("delta", "δ", [1e-8, 1e-6, 1e-5], DELTA),
    ):
        ax, lines = drawn(found, along=along, values=values)
        assert ax.get_xlabel() == label
        x, y = lines["pabi, shifted interpolation"].get_data()
        assert list(x) == values
        assert all(b < a for a, b in pairwise(y))
        marks = [line.get_xdata()[0] for line in ax.get_lines() if len(line.get_xdata()) == 1]
        assert marks == [pytest.approx(own)]


ALSO = {
    "a histogram": pabi.Guarantee.from_tradeoff(
        Laplace(0.5), adjacency="replace_one", method="noisy histogram", source="its makers"
    ),
    "another library": Published(0.7, "gdp", "unverified", "its proof has a gap", "a manual"),
    "a table": Published(3.25, "epsilon", "sound", "", "Table 2"),
    "a curve": Published(Laplace(0.25), "tradeoff", "refuted", "an example", "a page"),
}


def test_what_is_handed_over_is_shown_beside_the_rest():
    plain, comparison = compare(CONSTRAINED, DELTA), compare(CONSTRAINED, DELTA, also=ALSO)
    assert comparison.also == tuple(ALSO)
    assert set(comparison) - set(plain) == {comparison[name] for name in ALSO}
    epsilons = [row.epsilon for row in comparison if row.applies]
    assert all(b >= a * (1.0 - 1e-8) for a, b in pairwise(epsilons))
    assert comparison["a histogram"].epsilon == ALSO["a histogram"].epsilon(DELTA)
    assert "under replace_one" in comparison["a histogram"].note
    assert comparison["another library"].epsilon == gdp_to_epsilon(0.7, DELTA)
    assert comparison["another library"].mu == 0.7
    assert comparison["a table"].epsilon == 3.25
    assert comparison["a curve"].epsilon == Laplace(0.25).epsilon(DELTA)
    statuses = [comparison[name].status for name in ALSO]
    assert statuses == ["stated", "unverified", "sound", "refuted"]
    for line in ("a histogram", "another library"):
        assert any(shown.startswith(line) for shown in str(comparison).splitlines())


def test_what_is_handed_over_is_a_marker_at_the_length_of_the_run():
    comparison = compare(CONSTRAINED, DELTA, also=ALSO)
    ax, lines = drawn(comparison)
    for name, label in (("a histogram", "a histogram, stated"), ("a curve", "a curve, refuted")):
        x, y = lines[label].get_data()
        assert (list(x), list(y)) == ([400.0], [comparison[name].epsilon])
        assert lines[label].get_linestyle() == "None"
        assert ax.get_ylim()[0] < y[0] < ax.get_ylim()[1]
    assert lines["pabi, shifted interpolation"].get_data()[0][-1] == 400.0


def test_what_has_no_epsilon_or_no_name_of_its_own_is_refused():
    known, nan = ALSO["a histogram"], float("nan")
    wrong = [-0.5, nan, True, "sound", lambda run: "much"]
    wrong += [Published(x, "epsilon", "sound", "", "a paper") for x in (-1.0, nan)]
    wrong += [Published(0.5, kind, "sound", "", "a paper") for kind in ("rdp", "gdp_lower")]
    wrong += [Published(1.0, "epsilon", "fine", "", "a paper")]
    named = [{name: known} for name in ("pabi", "bok.theorem_4_5", "", 3)]
    for also in ([known], *named, *({"mine": x} for x in wrong)):
        with pytest.raises(pabi.InvalidInput, match=r"^also: expected "):
            compare(CONSTRAINED, DELTA, also=also)


def square_root(run):
    """Some bound of one's own that grows with the length."""
    if run.noise_std is None:
        raise pabi.NotApplicable("needs noise_std")
    return 0.01 * run.steps**0.5


def test_functions_are_asked_at_every_length():
    comparison = compare(CONSTRAINED, DELTA, also={"mine": square_root, "a number": 4})
    assert comparison["mine"].epsilon == square_root(CONSTRAINED)
    assert (comparison["mine"].status, comparison["a number"].epsilon) == ("stated", 4.0)
    _, lines = drawn(comparison)
    x, y = lines["mine, stated"].get_data()
    per_epoch = CONSTRAINED.steps / 400.0
    assert len(x) > 10
    assert np.allclose(y, 0.01 * np.sqrt(np.array(x) * per_epoch))
    assert len(lines["a number, stated"].get_data()[0]) == 1
    multiplied = replace(CONSTRAINED, noise_std=None, noise_multiplier=10.0)
    assert not compare(multiplied, DELTA, also={"mine": square_root})["mine"].applies


def test_what_is_proven_of_another_relation_is_said_to_be():
    own = CONSTRAINED.guarantee(DELTA)
    other = replace(CONSTRAINED, adjacency="zero_out", unit="user").guarantee(DELTA)
    beside = compare(CONSTRAINED, DELTA, also={"again": own, "users": other, "G": Gaussian(0.5)})
    assert [beside[name].status for name in ("again", "users", "G")] == ["sound", "sound", "stated"]
    assert "not comparable" not in beside["again"].note
    wanted = "not comparable, the run has adjacency 'replace_one' and unit 'record'"
    assert wanted in beside["users"].note
    assert beside["G"].mu == 0.5


# Samplers and mechanisms.

STRONG = Loss.strongly_convex(0.5, 2.0, gradient_bound=1.0)


def test_a_chain_is_covered_by_what_covers_one_run():
    chain = pabi.LangevinChain(STRONG, 100, inverse_temperature=20.0, step_size=1e-3, steps=1000)
    found = compare(chain)
    assert found["bok.theorem_4_2"].mu == pytest.approx(found["pabi"].mu, rel=1e-9)
    assert found["bok.proposition_5_1"].mu >= found["pabi"].mu
    mus = {row.method: row.mu for row in chain.explain()}
    assert found["dong.corollary_3_3"].mu == pytest.approx(mus["composition"], rel=1e-9)
    many = compare(replace(chain, chains=3))
    assert [row.name for row in many if row.applies] == ["pabi"]


def test_diffusions_beside_the_path_and_the_short_term_bound():
    diffusion = pabi.LangevinDiffusion(STRONG, 100, inverse_temperature=2.0, time=10.0)
    found = compare(diffusion)
    path, short = found["langevin_universality.lemma_c_1"], found["langevin_universality.lemma_i_2"]
    assert found["pabi"].epsilon < min(path.epsilon, short.epsilon)
    longer = replace(diffusion, inverse_temperature=[1.0, 2.0])
    assert not compare(longer)["langevin_universality.lemma_i_2"].applies
    ax, lines = drawn(found)
    assert ax.get_xlabel() == "time"
    assert len(lines) == 3


def test_exponential_mechanisms():
    given = {"dimension": 2, "diameter": 1.0, "inverse_temperature": 20.0}
    mechanism = pabi.ExponentialMechanism(STRONG, 100, **given)
    found = compare(mechanism)
    assert found["pabi"].epsilon <= min(row.epsilon for row in found if row.applies)
    exact = 20.0 * 0.02 / math.sqrt(20.0 * 0.5)
    assert found["bok.corollary_5_2"].mu == pytest.approx(exact, rel=1e-12)
    unknown = replace(mechanism, loss=Loss.unknown(gradient_bound=1.0))
    names = {row.name for row in compare(unknown) if row.applies}
    assert names == {"pabi", "mcsherry_talwar.exponential_mechanism"}
    with pytest.raises(pabi.InvalidInput, match="no length"):
        found.plot()


def test_when_the_long_term_bound_takes_over():
    given = {"m": 0.5, "inverse_temperature": 2.0, "order": 2.0}
    long = {"M": 2.0, "dimension": 2, "radius": 1.0, "stationary": 0.1}
    universal = pabi.literature.langevin_universality
    time = universal.switch_of_regimes(**given, **long, gradient_gap=1.0)
    for at, ahead in ((0.999 * time, True), (1.001 * time, False)):
        short = universal.lemma_i_2(**given, gradient_gap=1.0, time=at)
        assert (float(universal.lemma_i_1(**given, **long, time=at)) > float(short)) == ahead
    assert universal.switch_of_regimes(**given, **long, gradient_gap=0.1) == math.inf


# Rows as data, and along other axes.


def test_rows_are_written_and_read_back(tmp_path):
    found = compare(CLIPPED, DELTA, also={"ours": uses_only})
    assert found.to_csv(tmp_path / "rows.csv") is None
    assert (tmp_path / "rows.csv").read_text("utf-8") == found.to_csv()
    read = list(csv.DictReader(io.StringIO(found.to_csv())))
    written = json.loads(json.dumps(found.to_dict()))
    assert from_dict(written["description"]) == CLIPPED
    assert len(read) == len(written["rows"]) == len(found)
    for row, line, entry in zip(found, read, written["rows"], strict=True):
        assert entry == {"delta": DELTA, **asdict(row)}
        assert (line["name"], line["source"], line["note"]) == (row.name, row.source, row.note)
        assert line["applies"] == str(row.applies)
        assert (line["epsilon"] == "") == (row.epsilon is None)
        assert row.epsilon is None or float(line["epsilon"]) == row.epsilon


def uses_only(run):
    uses = math.ceil(run.data_steps / run.steps_per_epoch)
    return Gaussian(math.sqrt(uses) * run.sensitivity / (run.batch_size * run.gradient_noise_std))


AXES = {"epochs": [1, 10], "steps": [20, 100], "noise_multiplier": [1.0, 4.0]}
AXES |= {"n": [3_000, 120_000], "delta": [1e-8, 1e-3]}


@every("along", AXES)
def test_an_axis_is_what_a_comparison_of_another_run_says(along):
    def changed(value):
        changes = {"steps": {"epochs": None, "total_steps": value}, "delta": {}}
        changes |= {"noise_multiplier": {"noise_std": None, "noise_multiplier": value}}
        return replace(MNIST_CLIPPED, **changes.get(along, {along: value}))

    found = compare(MNIST_CLIPPED, DELTA, also={"mine": uses_only})
    rows = found.to_dict(along, AXES[along])["rows"]
    for value in AXES[along]:
        delta = value if along == "delta" else DELTA
        other = compare(changed(value), delta, also={"mine": uses_only})
        mine = {row["name"]: row for row in rows if row[along] == value}
        assert set(mine) == {row.name for row in other}
        for row in other:
            assert (mine[row.name]["epsilon"], mine[row.name]["delta"]) == (row.epsilon, delta)
    header = found.to_csv(along=along, values=AXES[along]).split("\n")[0].split(",")
    assert header[0] == along


@every("name", ["epochs", "steps", "noise_multiplier", "n", "delta"])
@every("run", [MNIST_CLIPPED, replace(POISSON, clip_norm=1.0)])
def test_usual_values_hold_the_runs_own(run, name):
    axis = axis_of(run, DELTA, name, None)
    assert list(axis.values) == sorted(set(axis.values))
    assert any(value == pytest.approx(axis.own) for value in axis.values)
    changed, delta = axis.at(axis.own)
    assert delta == pytest.approx(DELTA)
    assert changed.data_steps == run.data_steps
    assert changed.gradient_noise_std == pytest.approx(run.gradient_noise_std)


def test_other_axes_are_refused():
    for run, along, values, field in (
        (MNIST, "noise_multiplier", None, "along"),  # a sensitivity stands in for the clipping norm
        (MNIST, "size", None, "along"),
        (MNIST, "epochs", [0], "values"),
        (MNIST, "epochs", [], "values"),
        (MNIST, "epochs", 3, "values"),
        (MNIST, "delta", [1.0], "values"),
        (CHAIN, "n", None, "along"),
    ):
        refused(field, compare(run, DELTA).to_dict, along, values)
