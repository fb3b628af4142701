"""Sentences about a run: one for everything that a guarantee rests on, and none for what it does not.

That the checker derives the same ones from a description is tested with guarantees and certificates.
"""

from __future__ import annotations

import itertools

import numpy as np

from pabi import (
    BallsInBins,
    Cyclic,
    FixedSize,
    FullBatch,
    Loss,
    NoisySGD,
    Poisson,
    Reshuffle,
    ShuffleOnce,
    prox,
    updates,
)
from pabi.describe.accounted import ADJACENT, HIDDEN, SHOWN, USERS, about_gap, about_mean_loss
from pabi.describe.runs import run_sentences
from support.every_case import every

SCHEMES = [
    FullBatch(),
    *(kind(10) for kind in (Cyclic, ShuffleOnce, BallsInBins, Reshuffle, FixedSize, Poisson)),
    *(ShuffleOnce(10, spare=5), Reshuffle(10, spare=5), BallsInBins(10, redraw="epoch")),
]
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


SAYS = {
    "another divisor": ({"batches": Cyclic(19)}, "divided by 19"),
    "clipped": ({"clip_norm": 0.5}, "each record's gradient is clipped to norm 0.5"),
    "coordinates": (
        {"clip_norm": 0.5, "clipping": "coordinates"},
        "each record's gradient is clipped coordinate by coordinate to 0.5/√d",
    ),
    "a bound": ({"loss": Loss.convex(2.0, gradient_bound=0.25)}, "norm at most 0.25"),
    "a stated sensitivity": (
        {"gradient_sensitivity": 0.7},
        "by at most 0.7 (gradient_sensitivity)",
    ),
    "a diameter": ({"diameter": 3.0}, "at most 3.0 apart (diameter)"),
    "a cool-down": ({"cooldown_steps": 4}, "the last 4 steps use no data"),
    "a regulariser": ({"loss": LOSS.with_l2(0.3)}, "the regulariser 0.3·‖x‖²/2"),
    "a prox": ({"prox": prox.l1(0.25)}, "is nonexpansive and does not depend on the data"),
    "a ball": ({"prox": prox.ball(1.5)}, "has diameter at most 3.0"),
}


@every("name", SAYS)
def test_whatever_a_proof_may_use_is_said(name):
    changes, words = SAYS[name]
    more, _ = added(run_of(), run_of(**changes))
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
    more, less = added(free, capped)
    assert less == []
    (sentence,) = more
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


@every("position", [0, 7])
def test_a_position_is_the_only_one_spoken_of(position):
    run = run_of()
    more = set(run_sentences(run, position=position)) - set(run_sentences(run))
    (sentence,) = more
    assert f"batch {position} (0-based)" in sentence


@every("update", ["sgd", "other", updates.Momentum(0.5)])
def test_the_description_s_own_sentences_are_those_of_a_hidden_path(update):
    assert run_of(update=update).assumptions == run_sentences(run_of(update=update))


def test_a_gap_is_said_as_it_was_stated():
    assert "at most 0.125 (gradient_gap)" in about_gap(0.125, LOSS)
    assert "mean losses" in about_gap(0.125, LOSS)
    assert about_gap(None, LOSS) == "each record's gradient has norm at most 1.5"


def test_the_regulariser_of_a_mean_loss_is_said_where_there_is_one():
    plain = about_mean_loss(LOSS)
    assert plain == list(LOSS.sentences)
    more = [s for s in about_mean_loss(LOSS.with_l2(0.5)) if s not in plain]
    assert more == ["the mean loss includes the regulariser 0.5·‖x‖²/2"]
