"""Who stands behind an assumption: whoever is not known to be another, the person who runs the training."""

import functools
import json
import re

import numpy as np

import pabi
from pabi.describe.accounted import HIDDEN
from pabi.execute import engine
from pabi.execute.computed_steps import ACCURATE, EXACT
from pabi.execute.engine import CLIPS_ITSELF
from pabi.integrations.torch.datasets import BY_RECORD, FROZEN
from pabi.integrations.torch.library import PRODUCTS
from pabi.learn.plans import LABELS, ONE_FIT, PREPROCESSING
from pabi.sampling.chains import TAKEN
from pabi.sampling.exact import slopes, taken
from pabi.show import attesting as table
from pabi.show.attesting import Attests, attesting, hidden, plain, points
from pabi.tradeoff.certificate import stated_sentence
from pabi.tradeoff.guarantee import INDEPENDENT
from pabi.tradeoff.selection import ENTERED
from support.every_case import every
from support.falsification.honest_files import honest_files

BOUNDED = pabi.Loss.logistic(feature_norm=1.0, l2=0.1)


def run(**changes):
    fields = {
        "loss": BOUNDED,
        "n": 100,
        "batches": pabi.FullBatch(),
        "epochs": 2,
        "step_size": 0.1,
        "noise_std": 1.0,
        "clip_norm": 0.5,
    }
    return pabi.NoisySGD(**{**fields, **changes})


@functools.cache
def sentences():
    """Of guarantees of all kinds, as they are written today."""
    files = [text for name, text in honest_files().items() if "certificate" not in name]
    whole = [pabi.Guarantee.from_json(text) for text in files]
    one = run().guarantee(1e-3)
    others = [
        one,
        pabi.select(one, 10.0, 1.0),
        pabi.select(one, 10.0, scoring=pabi.NoisyAccuracy(100, 1.0).guarantee(1e-3)),
        pabi.select([one, run(noise_std=2.0).guarantee(1e-3)], 10.0, 1.0),
        run(batches=pabi.BallsInBins(10, cap=20)).guarantee(1e-3),
        run(batches=pabi.Poisson(10, cap=20)).guarantee(1e-3),
        run(clipping="residual").guarantee(1e-3),
        run().unlearning(1e-3, epochs=1),
        run(diameter=2.0).unlearning(1e-3, epochs=1, published=True),
        pabi.LangevinChain(
            BOUNDED, n=100, inverse_temperature=1.0, step_size=0.1, steps=9, release="path"
        ).guarantee(1e-3),
        pabi.LangevinDiffusion(
            BOUNDED, n=100, inverse_temperature=1.0, time=1.0, release="path"
        ).guarantee(1e-3),
    ]
    return tuple(dict.fromkeys(s for g in (*whole, *others) for s in g.assumptions))


@every("who", list(Attests))
def test_every_beginning_is_that_of_a_sentence(who):
    from pabi.execute.engine import RESUMED

    stated = stated_sentence("a mechanism", "its owner")
    known = (*sentences(), RESUMED, CLIPS_ITSELF, PREPROCESSING, ONE_FIT, LABELS, stated, TAKEN)
    of_loss = taken(pabi.ExponentialMechanism(BOUNDED, 100, 2, diameter=1.0, epsilon=1.0))
    known = (*known, ACCURATE, EXACT, FROZEN, BY_RECORD, engine.BY_RECORD, PRODUCTS)
    known = (*known, of_loss, slopes(1.0))
    for beginning, words in table._PLAIN[who]:
        for part in beginning.split("|") if "(" not in beginning else [beginning]:
            assert [s for s in known if re.match(part, s) and plain(s) == words], part


def test_every_sentence_of_the_accountant_and_of_trainers_has_plain_words():
    """Without symbols, and without the names that the field has for things."""
    terms = re.compile(
        r"[ξ‖∇≤≥⟨σμ]|iterate|curvature|nonexpansive|proximal|gradient|modul|permutation"
    )
    for sentence in sentences():
        assert not terms.search(plain(sentence)), sentence
        assert plain(sentence) != sentence, sentence


def test_points_hold_every_sentence_once_and_tell_whose_word_it_is():
    every = sentences()
    grouped = points(every, [every[0], "of nobody"])
    assert sorted(s for point in grouped for s in point.exact) == sorted(every)
    assert [point.exact for point in grouped if point.own] == [(every[0],)]
    for point in grouped:
        assert {(attesting(s, every), plain(s)) for s in point.exact} == {(point.who, point.text)}


def test_every_part_about_what_is_hidden_is_in_a_sentence():
    from pabi.execute.engine import RESUMED

    for part, _ in table._HIDDEN:
        assert [s for s in (*sentences(), RESUMED) if part in s], part


@every(
    "sentence",
    [HIDDEN, INDEPENDENT, ENTERED, PREPROCESSING, ONE_FIT, LABELS, CLIPS_ITSELF, "", "whatever else"],
)  # fmt: skip
def test_what_nobody_enforces_is_attested(sentence):
    assert attesting(sentence, (sentence,)) is Attests.PERSON


@every(
    "changes",
    [
        {"loss": pabi.Loss.convex(1.0), "clip_norm": None, "gradient_sensitivity": 1.0},
        {"loss": pabi.Loss.convex(1.0), "diameter": 2.0},
        {"batches": pabi.Cyclic(10)},
    ],
)
def test_what_a_description_states_is_attested(changes):
    every = run(**changes).guarantee(1e-3).assumptions
    stated = ("(gradient_sensitivity)", "(diameter)", "curvature", "do not depend on the data")
    about = [s for s in every if any(word in s for word in stated)]
    assert about
    assert {attesting(s, every) for s in about} == {Attests.PERSON}


def test_what_a_trainer_does_not_clip_or_take_it_does_not_enforce():
    every = run(loss=pabi.Loss.unknown()).guarantee(1e-3).assumptions
    (clipped,) = (s for s in every if s.startswith("each record's gradient is clipped"))
    assert attesting(clipped, every) is Attests.TRAINER
    assert attesting(clipped, (*every, CLIPS_ITSELF)) is Attests.PERSON
    every = pabi.NoisyIteration(0.9, 1.0, 2.0, steps=3).guarantee(1e-3).assumptions
    assert {attesting(s, every) for s in every[1:]} == {Attests.PERSON}


def test_what_must_stay_hidden():
    shuffled = hidden(run(batches=pabi.ShuffleOnce(10)).guarantee(1e-3).assumptions)
    assert [w.split()[1] for w in shuffled] == ["iterate", "order", "noise,"]
    path = hidden(run(release="path", batches=pabi.Cyclic(10)).guarantee(1e-3).assumptions)
    assert [w.split()[1] for w in path] == ["noise,"]
    assert hidden(("nothing",)) == ()
    one = pabi.NoisySecondMoments(100, 3, 1.0, noise_std=9.0).guarantee(1e-3)
    assert "the sum without noise" in hidden(one.assumptions)
    assert np.isfinite(json.loads(one.to_json())["epsilon"])


def test_what_forgetting_is_attested_and_hides():
    alone = run().unlearning(1e-3, epochs=1).assumptions
    who = {s: attesting(s, alone) for s in alone}
    assert [s for s in alone if who[s] is Attests.ACCOUNTANT] == [alone[0]]
    said = [s for s in alone if s.startswith(("request", "which", "the later"))]
    assert {who[s] for s in said} == {Attests.PERSON}
    assert [w.split()[1] for w in hidden(alone)] == ["earlier", "noise,"]
    handed_out = run(diameter=2.0).unlearning(1e-3, epochs=1, published=True).assumptions
    assert [w.split()[1] for w in hidden(handed_out)] == ["iterate", "noise,"]
