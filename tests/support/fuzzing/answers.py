"""What comes of random questions: a guarantee that verifies, or one line that says why there is none.

Whatever an analysis claims has to be proven, not the best of them alone: `pabi.verify` has to accept each,
and the kernel may refuse none.

More noise must not cost more, nor less of the same epochs (`support.fuzzing.kinds` has all such pairs). What
a solver finds may be short of its optimum by the tolerances that the theory states.

`python -m support.fuzzing.answers BEGIN END [SECONDS]`, run in `tests`, tries the questions of these seeds,
as far as there is time, and prints what came of them as JSON.
"""

import json
import math
import random
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable

import pabi
from pabi.account.analyses import analyses_of
from pabi.account.best import outcomes, refused
from pabi.numbers.errors import NotApplicable, TargetUnreachable
from pabi.tradeoff import Gaussian
from pabi.verification.arithmetic import Refused
from pabi.verification.granting import grant
from support.fuzzing.kinds import Question, question

# Relative, of ε: Gaussians of linear moduli, readings of products, optima of nonlinear moduli.
EXACT, READ, BENT = 1e-9, 2e-3, 2e-2
SLIGHT = 1e-4  # of δ: where ε is so small, its error is one of δ
MOST_SECONDS = 60.0  # of processor time, for one question: what takes longer is wrong
LONG = 5.0  # likewise, for one answer of one analysis: what takes longer is told
AMPLE = {"size": 1 << 28, "unpacked": 1 << 28, "positions": 10**7, "seconds": MOST_SECONDS}
THOROUGH = 0.2  # of all questions about one description: what every analysis claims is looked at
DELTAS = (0.0, 0.5, 0.99, 1e-15)  # seldom
REFUSALS = (pabi.InvalidInput, NotApplicable, TargetUnreachable)


def problem_of(asked: Question, delta: float, thorough: bool = True) -> str | None:
    """What is wrong with the answer to a question, or None. `thorough`: whether all analyses have to be
    right, not the best of them alone."""
    refused.clear()
    guarantee = asked.ask(delta)
    if refused:  # of what our own search proposes
        return f"refused: {', '.join(refused)}"
    return (
        _unproven(guarantee, delta, asked.certified)
        or (_unproven_others(asked, delta, guarantee.method) if thorough else None)
        or _not_monotone(asked, guarantee, delta)
    )


def _unproven(guarantee: pabi.Guarantee, delta: float, certified: bool) -> str | None:
    """Why a guarantee is no number, or not proven; None if it is."""
    epsilon = guarantee.epsilon(delta)
    if math.isnan(epsilon) or epsilon < 0.0:
        return f"{guarantee.method}: ε = {epsilon!r}"
    if guarantee.certificate is None:
        return f"{guarantee.method}: no certificate" if certified else None
    verdict = pabi.verify(guarantee, **AMPLE)
    if not verdict.ok:
        return f"{guarantee.method}: not verified: {verdict.reason}"
    proven, at = verdict.reading or (math.inf, delta)
    if at == delta and proven < epsilon * (1 - 1e-12):
        return f"the verdict proves {verdict.reading}, {guarantee.method} says {epsilon}"
    return None


def _unproven_others(asked: Question, delta: float, best: str) -> str | None:
    """The same of what the analyses but the `best` one claim of a description."""
    if asked.about is None:
        return None
    description, position = asked.about
    names = [analysis.name for analysis in analyses_of(description) if analysis.name != best]
    for name in names:
        (answer,) = outcomes(description, delta, position, name)
        if answer.proposal is None:
            continue
        try:
            guarantee = grant(description, answer.proposal, position)
        except Refused as refusal:
            return f"{name}: refused: {refusal}"
        problem = _unproven(guarantee, delta, asked.certified)
        if problem is not None:
            return problem
    return None


def _not_monotone(asked: Question, guarantee: pabi.Guarantee, delta: float) -> str | None:
    """Where a neighbour that must not costs more, or less."""
    for what, cheaper, ask in asked.neighbours:
        try:
            other = ask(delta)
        except REFUSALS:
            if cheaper:
                return f"{what}: refused, unlike what costs no less"
            continue
        low, high = (other, guarantee) if cheaper else (guarantee, other)
        most = high.epsilon(delta) * (1 + _tolerance(low, high)) + SLIGHT * delta
        if low.epsilon(delta) > most:
            ends = [f"{g.epsilon(delta)!r} ({g.method})" for g in (low, high)]
            return f"{what}: {', '.join(ends)}"
    return None


def _tolerance(*guarantees: pabi.Guarantee) -> float:
    if any("nonlinear" in g.method or "sided" in g.method for g in guarantees):
        return BENT
    return EXACT if all(isinstance(g.curve, Gaussian) for g in guarantees) else READ


def outcome(seed: int) -> tuple[str, str | None]:
    """("guarantee", "refused" or "wrong"; what is wrong)."""
    rng = random.Random(~seed)
    delta = rng.choice(DELTAS) if rng.random() < 0.05 else 10.0 ** -rng.randint(1, 8)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what overflows is not for whoever asks
            warnings.simplefilter("ignore", pabi.PrivacyWarning)
            asked = question(seed)
            problem = problem_of(asked, delta, rng.random() < THOROUGH)
    except REFUSALS as no:
        text = str(no)
        clear = bool(text) and "\n" not in text
        return ("refused", None) if clear else ("wrong", f"no line, or several: {text!r}")
    except Exception:  # of whatever kind: that is what is looked for
        return "wrong", traceback.format_exc(limit=-4)
    return (
        ("guarantee", None)
        if problem is None
        else ("wrong", f"{asked.kind}: {problem} at δ = {delta}")
    )


def _too_long(*_: object) -> None:
    raise TimeoutError(f"took more than {MOST_SECONDS} s")


def tried(seeds: Iterable[int], seconds: float = math.inf) -> dict:
    """What came of the questions of these seeds: counts, what was wrong, and the slowest."""
    signal.signal(signal.SIGPROF, _too_long)
    counted, wrong, slowest, until = Counter(), [], (0.0, -1), time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > until:
            break
        begin = time.process_time()
        print(f"question {seed}", file=sys.stderr)  # the last line says what does not end
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        kind, problem = outcome(seed)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        counted[kind] += 1
        slowest = max(slowest, (time.process_time() - begin, seed))
        if problem is not None:
            wrong.append(f"seed {seed}: {problem}")
    return {"counted": counted, "wrong": wrong, "slowest": slowest}


if __name__ == "__main__":
    first, last, *limit = sys.argv[1:]
    print(json.dumps(tried(range(int(first), int(last)), *map(float, limit))))
