"""Sentences about a run: one for everything that a guarantee rests on, and none for what it does not.

That the checker derives the same ones from a description is tested with guarantees and certificates.
"""

import itertools
from functools import partial

import numpy as np

import pabi
from pabi import BallsInBins, Cyclic, Loss, NoisySGD, Poisson, Reshuffle, ShuffleOnce, prox, updates
from pabi.describe.accounted import (
    ADJACENT,
    HIDDEN,
    SHOWN,
    USERS,
    about_gap,
    about_mean_loss,
    changed,
    checked_adjacency,
)
from pabi.describe.runs import run_sentences
from support.every_case import Agreeable, every, refused

SCHEMES = [pabi.FullBatch(), pabi.FixedSize(10), BallsInBins(10, redraw="epoch")]
SCHEMES += [kind(10) for kind in (Cyclic, ShuffleOnce, BallsInBins, Reshuffle, Poisson)]
SCHEMES += [ShuffleOnce(10, spare=5), Reshuffle(10, spare=5)]
LOSS = Loss.convex(2.0, gradient_bound=1.5)


def run_of(**changes):
    given = {"loss": LOSS, "n": 95, "batches": Cyclic(10), "steps": 40, "step_size": 0.1}
    given |= {"noise_std": 1.0, **changes}
    return NoisySGD(**given)


def added(run, other, **how):
    """(sentences that `other` has and `run` has not, the other way round)."""
    one, two = run_sentences(run, **how), run_sentences(other, **how)
    return [s for s in two if s not in one], [s for s in one if s not in two]


@every(("batches", "whose"), list(itertools.product(SCHEMES, ADJACENT)))
@every("hidden", [True, False])
def test_every_run_says_who_is_protected_and_what_is_released(batches, whose, hidden):
    adjacency, unit = whose
    said = run_sentences(run_of(batches=batches, adjacency=adjacency, unit=unit), hidden)
    assert [s for s in said if s in ADJACENT.values()] == [ADJACENT[whose]]
    assert (USERS in said) == (unit == "user")
    assert [s for s in said if s in (HIDDEN, SHOWN)] == [HIDDEN if hidden else SHOWN]
    assert sum(s == batches.sentence for s in said) == 1
    assert len(set(said)) == len(said)
    for sentence in said:
        assert sentence.strip() == sentence != ""
        assert "\n" not in sentence
        assert not sentence.endswith(".")


def test_schemes_have_sentences_of_their_own():
    assert len({batches.sentence for batches in SCHEMES}) == len(SCHEMES)
    assert len(set(ADJACENT.values())) == len(ADJACENT) == 4


COORDINATES = {"clip_norm": 0.5, "clipping": "coordinates"}
SAYS = {
    "divided by 19": {"batches": Cyclic(19)},
    "each record's gradient is clipped to norm 0.5": {"clip_norm": 0.5},
    "each record's gradient is clipped coordinate by coordinate to 0.5/√d": COORDINATES,
    "norm at most 0.25": {"loss": Loss.convex(2.0, gradient_bound=0.25)},
    "by at most 0.7 (gradient_sensitivity)": {"gradient_sensitivity": 0.7},
    "at most 3.0 apart (diameter)": {"diameter": 3.0},
    "the last 4 steps use no data": {"cooldown_steps": 4},
    "the regulariser 0.3·‖x‖²/2": {"loss": LOSS.with_l2(0.3)},
    "is nonexpansive and does not depend on the data": {"prox": prox.l1(0.25)},
    "has diameter at most 3.0": {"prox": prox.ball(1.5)},
}


@every("words", SAYS)
def test_whatever_a_proof_may_use_is_said(words):
    more, _ = added(run_of(), run_of(**SAYS[words]))
    assert sum(words in sentence for sentence in more) == 1


def test_numbers_that_the_description_states_need_no_sentence():
    """What is trained is what is described; the sentences are about what cannot be seen there."""
    schedules = [{"step_size": 0.2}, {"noise_std": 2.0}, {"step_size": np.full(40, 0.1)}]
    counts = [{"steps": 41}, {"n": 91}]
    # The loss promises a norm of 1.5 anyway.
    for changes in (*schedules, *counts, {"clip_norm": 1.5}, {"clip_norm": 9.0}):
        assert added(run_of(), run_of(**changes)) == ([], []), changes


def test_clipping_a_bounded_gradient_says_what_bounds_it():
    """The lesser of both, not both."""
    more, less = added(run_of(), run_of(clip_norm=0.5))
    assert less == ["each record's gradient has norm at most 1.5"]
    assert more == ["each record's gradient is clipped to norm 0.5"]


@every("kind", [Poisson, BallsInBins])
@every("adjacency", ["replace_one", "zero_out"])
def test_a_cap_says_what_becomes_of_larger_batches(kind, adjacency):
    """And of a record that counts and is not summed, where adjacent data sets have one."""
    free, capped = (run_of(batches=kind(10, cap), adjacency=adjacency) for cap in (None, 12))
    (sentence,), less = added(free, capped)
    assert less == []
    assert (
        "a batch of more than 12 records is replaced by an empty one, never truncated" in sentence
    )
    zeroed = "a record whose gradient is taken as zero is drawn and counted like any other"
    assert (zeroed in sentence) == (adjacency == "zero_out")


def test_a_released_path_rests_on_no_moduli():
    """Composition uses the noise and the bound on a gradient alone."""
    run = run_of(diameter=3.0, cooldown_steps=2, loss=LOSS.with_l2(0.1))
    bare = set(run_sentences(run, hidden=False))
    own = {SHOWN, "each step depends on the data only through the noisy gradients so far"}
    assert own < bare
    assert bare - own < set(run_sentences(run))
    for words in ("curvature", "diameter", "regulariser", "use no data"):
        assert not any(words in sentence for sentence in bare)
        assert any(words in sentence for sentence in run_sentences(run))


def test_a_diameter_that_the_map_keeps_within_is_said_of_the_map():
    """A stated one is an assumption only where it is less."""
    for stated, said in [(2.0, True), (3.0, False), (4.0, False)]:
        sentences = run_sentences(run_of(prox=prox.ball(1.5), diameter=stated))
        assert any("has diameter at most 3.0" in s for s in sentences)
        assert any("(diameter)" in s for s in sentences) == said


def test_a_position_is_the_only_one_spoken_of():
    run = run_of()
    (sentence,) = {*run_sentences(run, position=7)} - {*run_sentences(run)}
    assert "batch 7 (0-based)" in sentence
    # A hidden path is what a description has.
    for update in ("sgd", "other", updates.Momentum(0.5)):
        assert run_of(update=update).assumptions == run_sentences(run_of(update=update))


def test_a_gap_and_the_regulariser_of_a_mean_loss_are_said_as_stated():
    assert "at most 0.125 (gradient_gap)" in about_gap(0.125, LOSS)
    assert "mean losses" in about_gap(0.125, LOSS)
    assert about_gap(None, LOSS) == "each record's gradient has norm at most 1.5"
    plain = about_mean_loss(LOSS)
    assert plain == list(LOSS.sentences)
    more = [s for s in about_mean_loss(LOSS.with_l2(0.5)) if s not in plain]
    assert more == ["the mean loss includes the regulariser 0.5·‖x‖²/2"]


@every(("adjacency", "others"), [("replace_one", [-1.0, 0.0, 1.0]), ("zero_out", [0.0])])
def test_so_many_contributions_of_norm_one_lie_between_neighbours(adjacency, others):
    """Of all sums of three contributions in {−1, 0, 1}, one of them replaced or zeroed."""
    sums = [
        abs(sum(own) - sum((other, *own[1:])))
        for own in itertools.product([-1.0, 0.0, 1.0], repeat=3)
        for other in others
    ]
    assert changed(adjacency) == max(sums)


def test_other_units_are_refused():
    """Samplers and mechanisms know no users."""
    given = {"inverse_temperature": 1.0, "step_size": 0.1, "steps": 3}
    for make in (run_of, partial(pabi.LangevinChain, LOSS, 100, **given)):
        for value in ("Record", "users", "", None, 1, b"record", Agreeable("all")):
            assert 'expected "record" or "user", got' in refused("unit", make, unit=value)
    said = refused("unit", make, unit="user")
    assert "the only unit of samplers and mechanisms, got 'user'" in said
    assert run_of(unit="user").unit == "user"


def test_other_adjacencies_are_refused():
    """Adding a record is answered with the nearest that there is."""
    refused("adjacency", checked_adjacency, Agreeable("add_or_remove_one"))
    for value in ([], {}, object(), type("R", (), {"name": 3})()):
        message = refused("adjacency", checked_adjacency, value)
        assert 'expected "replace_one" or "zero_out"' in message
    for name in ("add_or_remove", "add_remove", "ADD_OR_REMOVE_ONE"):
        message = refused("adjacency", checked_adjacency, name)
        assert "changes n and with it the batches" in message
