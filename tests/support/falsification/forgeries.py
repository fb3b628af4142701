"""Single edits (`edits`) of honest files, at every place, and whether the answer to one is right.

Refusals are right. What is accepted must claim no less than what the accountant proves of the altered
description (`altered_oracle`), or state the honest proof in other words.
"""

import copy
import functools
import json
import math
import random
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

import pabi
from pabi.account.best import outcomes, refused
from pabi.numbers.errors import NotApplicable
from pabi.tradeoff import Laplace
from support.certificates import RUNS, guarantee_of
from support.daily import of_today
from support.falsification.altered_oracle import wrong_with
from support.falsification.edits import (
    BEYOND,
    TWICE_IN_THE_TEXT,
    at,
    edits,
    is_number,
    places,
    put_edit,
)
from support.falsification.honest_files import SLOW, certificate_in, honest_files
from support.falsification.hostile_files import FIELDS
from support.fuzzing.kinds import question

DELTA, MOST_SECONDS, LONGEST_REASON = 1e-5, 2.5, 1000
SAMPLED = "composition, random batches"  # apart, since they take long


# Honest files.


def _small(batches, loss=None, **changes):
    given = {"epochs": 3, "step_size": 0.4, "noise_std": 1.0, **changes}
    return pabi.NoisySGD(loss or pabi.Loss.logistic(1.0, l2=0.2), 12, batches, **given)


def _descriptions():
    rough, zeroed = pabi.Loss.lipschitz(1.0), {"adjacency": "zero_out"}
    drawn = _small(pabi.Poisson(4, cap=8), **zeroed)
    return {
        "cyclic": _small(pabi.Cyclic(5)),
        "bins": _small(pabi.BallsInBins(4)),
        "bins, every epoch": _small(
            pabi.BallsInBins(4, redraw="epoch"), step_size=np.linspace(0.9, 0.1, 9), noise_std=3.0
        ),
        "shuffled, some left out": _small(pabi.ShuffleOnce(4, spare=3), **zeroed),
        "reshuffled, some left out": _small(pabi.Reshuffle(4, spare=3)),
        "bins, replaced": _small(pabi.BallsInBins(4, 9), adjacency="replace_one", noise_std=2.0),
        "part of a shuffle": _small(pabi.Reshuffle(4), epochs=None, steps=2, noise_std=2.0),
        "reshuffled": _small(pabi.Reshuffle(4), step_size=np.linspace(0.5, 0.1, 9)),
        "fixed size": _small(pabi.FixedSize(4), diameter=2.0),
        "poisson": drawn,
        "rough": _small(pabi.Cyclic(4), rough, noise_std=3.0, diameter=1.0),
        "rough, shuffled": _small(pabi.ShuffleOnce(4), rough, noise_std=3.0, diameter=1.0),
        "rough, falling": _small(
            pabi.Cyclic(4), rough, step_size=np.linspace(0.5, 0.1, 9), noise_std=3.0, diameter=1.0
        ),
        "rough, fixed size": _small(pabi.FixedSize(4), rough, noise_std=3.0, diameter=1.0),
        "forgetting": pabi.Unlearning(_small(pabi.Cyclic(4)), [(3, 2), (1, 1)]),
        "forgetting, shuffled": pabi.Unlearning(_small(pabi.ShuffleOnce(4), **zeroed), [(3, 2)]),
        "forgetting, sampled": pabi.Unlearning(drawn, [(3, 2)]),
        "forgetting, rough": pabi.Unlearning(
            _small(pabi.Cyclic(4), rough, noise_std=3.0), [(9, 1)]
        ),
        "forgetting, published": pabi.Unlearning(
            _small(pabi.Cyclic(4), diameter=1.0), [(9, 1)], published=True
        ),
        "moments": pabi.NoisySecondMoments(50, 3, 1.0, noise_multiplier=5.0),
    }


@functools.cache
def files_of() -> dict[str, dict[str, str]]:
    """JSON texts by theorem and name: guarantees and certificates, of 0.1.0 and of the present."""
    texts = {name: text for name, text in honest_files().items() if name not in SLOW}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {}
        for name, description in _descriptions().items():
            for one in outcomes(description, DELTA):
                if one.guarantee is not None:
                    found[f"{name}: {one.name}"] = one.guarantee
        for name in ("cyclic", "moments"):
            best = _descriptions()[name].guarantee(DELTA)
            found |= {
                f"selected {name}": pabi.select(best, 10.0),
                f"groups of {name}": best.for_groups(3),
            }
        stated = {"adjacency": "zero_out", "method": "a histogram", "source": "its makers"}
        found["stated"] = pabi.Guarantee.from_tradeoff(Laplace(0.5), **stated)
        found |= {f"certificate of {name}": guarantee_of(name) for name in RUNS}
        texts |= {name: guarantee.certificate.to_json() for name, guarantee in found.items()}
    by_theorem: dict[str, dict[str, str]] = {}
    for name, text in texts.items():
        proof = certificate_in(json.loads(text))
        run = proof.get("run") or {}
        batches = run.get("run", run).get("batches", {}).get("kind")
        theorem = proof["theorem"]
        if theorem.endswith("composition") and batches in ("poisson", "fixed_size"):
            theorem = SAMPLED
        by_theorem.setdefault(theorem, {})[name] = text
    return by_theorem


@dataclass(frozen=True)
class Forgery:
    """One edit of one honest file."""

    name: str
    path: tuple
    edit: str

    def __str__(self):
        return f"{self.name}, {'.'.join(map(str, self.path))}: {self.edit}"


def shape(path):
    """A path without its indices."""
    return tuple("*" if isinstance(key, int) else key for key in path)


@functools.cache
def _alike(theorem):
    """What stands at places of every shape, in all files of a theorem: a few of each."""
    found: dict[tuple, dict[str, object]] = {}
    for text in files_of()[theorem].values():
        data = json.loads(text)
        for path in places(data):
            if path[-1] != "f8":
                several = found.setdefault(shape(path)[-2:], {})
                if len(several) < 40:
                    several.setdefault(json.dumps(at(data, path)), at(data, path))
    return found


def _others(theorem, data, path, rare):
    """Values to swap with: two that stand at such a place in other files of the theorem, one of files of
    another theorem, and one from elsewhere in this file."""
    another = list(files_of())[rare % len(files_of())]
    alike, strange = (
        list(_alike(one).get(shape(path)[-2:], {}).values()) for one in (theorem, another)
    )
    # Of larger runs one learns nothing.
    strange = [value for value in strange if not is_number(value)]
    every = [at(data, p) for p in places(data)]
    return [some[rare % len(some)] for some in (alike, alike[::-1], strange, every) if some]


def strata(theorem) -> Iterator[tuple[str, list[tuple[str, tuple]]]]:
    """(name of a stratum, its places): those of one shape, in files of one kind of loss and batches."""
    found: dict[str, list[tuple[str, tuple]]] = {}
    for name, text in files_of()[theorem].items():
        data = json.loads(text)
        run = certificate_in(data).get("run") or {}
        kind = (data["format"], data["version"], run.get("loss", {}).get("kind"))
        for path in places(data):
            if path[-1] not in ("f8", "i8") and "notes" not in path:
                found.setdefault(f"{kind} {shape(path)}", []).append((name, path))
    yield from found.items()


def drawn(theorem: str, count: float) -> Iterator[tuple[Forgery, object]]:
    """So many forgeries of today, with their files: at one place of every stratum, or of as many as that does
    for; infinitely many are all at all places."""
    every = sorted(strata(theorem), key=lambda stratum: of_today(stratum[0]))
    at_each, left = max(3, math.ceil(count / len(every))) if math.isfinite(count) else count, count
    for stratum, members in every:
        rare = of_today(f"{stratum} of the places")
        for name, path in members if math.isinf(count) else [members[rare % len(members)]]:
            data = json.loads(files_of()[theorem][name])
            edited = edits(data, path, _others(theorem, data, path, rare), rare)
            chosen = sorted(edited, key=lambda edit: of_today(f"{stratum} {edit}"))
            for edit in chosen[: int(min(at_each, left, len(chosen)))]:
                forgery = Forgery(name, path, edit)
                file = copy.deepcopy(data)
                text = put_edit(file, path, edit, edited[edit])
                yield forgery, text or file
                left -= 1
                if math.isfinite(count) and not text and not of_today(f"{forgery} twice") % 4:
                    yield replace(forgery, edit=f"{edit}, {_again(theorem, file)}"), file


def _again(theorem, file, rng=None):
    """One more edit, anywhere in what was edited, in place; and what it was. `rng`: that of today if None."""
    every = [p for p in places(file) if p[-1] not in ("f8", "i8") and "notes" not in p]
    if not every:
        return "and nothing else"
    rare = rng.getrandbits(32) if rng else of_today(f"{len(every)} places of {theorem}")
    path = every[rare % len(every)]
    edited = edits(file, path, _others(theorem, file, path, rare), rare)
    names = sorted(edited.keys() - {TWICE_IN_THE_TEXT, BEYOND, "no number"})
    name = names[rare % len(names)]
    put_edit(file, path, name, edited[name])
    return f"and {'.'.join(map(str, path))}: {name}"


# Answers.


def problem_with(forgery, file, honest):
    """What is wrong with the answer to a forgery, or None."""
    begin = time.process_time()
    try:
        verdict = pabi.verify(file, seconds=1.0)
    except pabi.InvalidInput as error:
        return None if error.field in FIELDS else f"raised {error!r}"
    except Exception as error:
        return f"raised {error!r}"
    if time.process_time() - begin > MOST_SECONDS:
        return "took too long"
    if not verdict.ok:
        return _unclear(verdict)
    if forgery.edit == TWICE_IN_THE_TEXT:
        return "accepted a key that stands twice"
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = json.loads(file if isinstance(file, str) else json.dumps(file))
            wrong = wrong_with(data, json.loads(honest), verdict)
        if "denormal" in forgery.edit or "huge" in forgery.edit:
            refused.clear()  # search does not calculate with such numbers
    except (MemoryError, pabi.InvalidInput) as error:
        # Of as many steps or records the accountant itself makes nothing.
        return None if "huge" in forgery.edit else f"accepted, although it is none: {error!r}"
    except Exception as error:
        return f"accepted, although nobody can say what it is: {error!r}"
    return wrong and f"accepted: {wrong}"


def _unclear(verdict):
    """What is wrong with a refusal: it has to have one line that is short, and to prove nothing."""
    if not verdict.reason or "\n" in verdict.reason or len(verdict.reason) > LONGEST_REASON:
        return f"refused without a clear reason: {verdict.reason[:99]!r}"
    proven = (verdict.mu, verdict.parts, verdict.product, verdict.bounds, verdict.reading)
    return None if proven == (None, (), None, (), None) else "refused, and proves something"


def problems(theorem: str, count: float) -> tuple[int, list[str]]:
    """(how many forgeries were tried, what was wrong with the answers)."""
    tried, wrong = 0, []
    for forgery, file in drawn(theorem, count):
        tried += 1
        problem = problem_with(forgery, file, files_of()[theorem][forgery.name])
        if problem is not None:
            wrong.append(f"{forgery}: {problem}")
    return tried, wrong


# Forgeries of random certificates, of which every analysis that applies gives one.

_LONGEST = 20_000  # characters of one


def random_files(number: int) -> dict[str, str]:
    """Certificates of all proofs about the description of a random question, by analysis; those of moderate
    length, as forgeries of long ones are much alike."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            about = question(number).about
            found = [] if about is None else outcomes(about[0], DELTA, about[1])
            texts = {
                one.name: one.guarantee.certificate.to_json()
                for one in found
                if one.guarantee is not None
            }
    except (pabi.InvalidInput, NotApplicable):
        return {}
    return {name: text for name, text in texts.items() if len(text) <= _LONGEST}


def random_forgeries(number: int, count: int) -> Iterator[tuple[Forgery, object, str]]:
    """So many forgeries of every certificate of a random question, each with the honest text."""
    rng = random.Random(number)
    for name, text in random_files(number).items():
        theorem = json.loads(text)["theorem"]
        every = [p for p in places(json.loads(text)) if p[-1] not in ("f8", "i8")]
        for _ in range(count):
            file, path, rare = json.loads(text), rng.choice(every), rng.getrandbits(32)
            edited = edits(file, path, _others(theorem, file, path, rare), rare)
            edit = rng.choice(sorted(edited))
            forgery = Forgery(f"question {number}, {name}", path, edit)
            written = put_edit(file, path, edit, edited[edit])
            if not written and rng.random() < 0.3:
                forgery = replace(forgery, edit=f"{edit}, {_again(theorem, file, rng)}")
            yield forgery, written or file, text


def random_problems(numbers: Iterable[int], count: int) -> tuple[int, list[str]]:
    """(how many forgeries of the certificates of these questions were tried, what was wrong)."""
    tried, wrong = 0, []
    for number in numbers:
        for forgery, file, honest in random_forgeries(number, count):
            tried += 1
            problem = problem_with(forgery, file, honest)
            if problem is not None:
                wrong.append(f"{forgery}: {problem}")
    return tried, wrong


# Claims of a little less, with every edit of what is to prove them.

# A share of what is claimed, which no other proof by the same theorem is known to reach.
LESS = 0.97
_SAID = {"run", "claim", "position", "assumes", "adjacency", "format", "one"}
_STEPS = {"steps", "groups", "moduli", "which", "diameter", "start"}  # of iterations, as stated


def lowered_forgeries(
    number: int, most: int | None = None
) -> Iterator[tuple[Forgery, object, str]]:
    """Certificates of a random question that claim less, each with one edit of its proof: all there are of
    these, or so many of each certificate. Each comes with the honest text."""
    rng = random.Random(number)
    for name, text in random_files(number).items():
        data = json.loads(text)
        if not _lowered(data):
            continue
        said = _SAID | (_STEPS if data["run"] is None else set())
        every = [p for p in places(data) if p[0] not in said and p[-1] not in ("f8", "i8")]
        tries = []
        for path in every:
            rare = rng.getrandbits(32)
            edited = edits(data, path, _others(data["theorem"], data, path, rare), rare)
            tries += [(path, edit, edited[edit]) for edit in edited]
        for path, edit, value in (
            tries if most is None else rng.sample(tries, min(most, len(tries)))
        ):
            file = copy.deepcopy(data)
            written = put_edit(file, path, edit, copy.deepcopy(value))
            yield Forgery(f"question {number}, less of {name}", path, edit), written or file, text


def _lowered(data) -> bool:
    """Whether less is claimed in `data`, which is changed."""
    claim = data.get("claim", {})
    if "reading" in data or not set(claim) <= {"mu", "mixture"}:
        return False
    if claim.get("mu", "inf") != "inf":
        claim["mu"] *= LESS
        return claim["mu"] > 0.0
    for pair in claim.get("mixture", ()):
        pair[1] = pair[1] if pair[1] == "inf" else pair[1] * LESS
    return "mixture" in claim
