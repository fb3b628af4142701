"""Alterations of honest files, each a pure function of a seed: of the structure, and of the numbers.

`python -m support.falsification.altered_files KIND BEGIN END`, run in `tests`, tries those of these seeds and
prints what came of them as JSON.
"""

from __future__ import annotations

import copy
import json
import math
import random
import resource
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import pabi
from support.falsification.altered_oracle import wrong_with
from support.falsification.edits import (
    TWICE_IN_THE_TEXT,
    at,
    edits,
    is_number,
    packed,
    places,
    put,
    put_edit,
)
from support.falsification.honest_files import SAMPLED, SLOW, certificate_in, honest_files

MOST_SECONDS, MOST_MEGABYTES = 10.0, 500.0
FIELDS = ("json", "format", "version")  # of what is no certificate at all
ODD = (
    None, True, False, 0, 1, -1, 2, 10**9, 10**18, 2**63, 10**30, 0.0, -0.0, 0.5, 1e-300, 1e300, -1e-9,
    "", "0", "1", "inf", "-inf", "NaN", "replace_one", "zero_out", "gaussian", "∞", [], {}, [[]], [0], [None],
    {"mu": 0.0}, {"f8": ""}, {"f8": 3}, {"i8": "eJwDAAAAAAE="}, {"kind": "gaussian", "mu": 0.0},
)  # fmt: skip
TEXTUAL = ("1e400", "-1e400", "1e-400", "NaN", "Infinity", "-Infinity", "01", "1.", "0x10", "1e999999999",
           "9" * 5000, "1e-5", "'a'", "")  # fmt: skip
GRAFTED = ("claim", "run", "cases", "plan", "certificate", "tradeoff", "assumptions", "method", "source",
           "steps", "groups", "adjacency", "theorem", "reading", "position", "one", "parts", "rounds",
           "window", "distance", "assumes", "mu", "epsilon", "delta", "loss", "batches")  # fmt: skip
MARK = "a key that is in no file"


class Skip(Exception):
    """This alteration does not apply to this file."""


def some(rng, found):
    """One of those that were found."""
    found = list(found)
    if not found:
        raise Skip
    return rng.choice(found)


def is_text(done):
    """Whether what was done is a text in place of the data."""
    return isinstance(done, tuple) and isinstance(done[0], str) and done[0].startswith(("{", "["))


def tables(data):
    """Paths to all objects, the file itself among them."""
    return [(), *(p for p in places(data) if isinstance(at(data, p), dict))]


def named(data, *keys):
    """Paths that end in one of these keys."""
    return [p for p in places(data) if p[-1] in keys]


# Alterations of the structure: (rng, data, another file's data) ↦ what was done; `data` is changed in place,
# or a text is returned in its place.


def edit(rng, data, other):
    """One of the edits of a place; what is swapped in is from anywhere in either file."""
    path = some(rng, places(data))
    swapped = [at(file, some(rng, places(file))) for file in (data, other)]
    edited = edits(data, path, swapped, rng.randrange(1 << 16))
    name = rng.choice(list(edited))
    text = put_edit(data, path, name, edited[name])
    return (text, path, name) if text else (path, name)


def rename(rng, data, other):
    path = some(rng, (p for p in places(data) if isinstance(p[-1], str)))
    name = rng.choice(
        [path[-1].upper(), path[-1] + " ", path[-1][:-1], "ｍｕ", MARK, "\u0000", "__class__"]
    )
    table = at(data, path[:-1])
    table[name] = table.pop(path[-1])
    return path, name


def move(rng, data, other):
    path = some(rng, places(data))
    part = at(data, path[:-1]).pop(path[-1])
    table = at(data, some(rng, tables(data)))
    table[path[-1] if isinstance(path[-1], str) else MARK] = part
    return path


def swap(rng, data, other):
    found = list(places(data))
    first = some(rng, found)
    alike = [p for p in found if p[:-1] == first[:-1] or p[-1] == first[-1]]
    second = rng.choice(alike)
    if first == second[: len(first)] or second == first[: len(second)]:
        raise Skip
    a, b = at(data, first), at(data, second)
    put(data, first, b)
    put(data, second, a)
    return first, second


def textual(rng, data, other):
    """A number that JSON does not know, or no double is."""
    path = some(rng, places(data))
    put(data, path, MARK)
    text = rng.choice(TEXTUAL)
    return json.dumps(data).replace(json.dumps(MARK), text), path, text[:20]


def extend(rng, data, other):
    path = some(rng, (p for p in places(data) if isinstance(at(data, p), list)))
    part = at(data, path)
    new = [copy.deepcopy(rng.choice(part or [0])), rng.choice(ODD), 0.0]
    part.extend(rng.choice([[x], [x] * 3, [x] * len(part)]) for x in [rng.choice(new)])
    part[-1:] = part[-1]
    return path


def deepen(rng, data, other):
    path, depth = some(rng, places(data)), rng.choice([1, 2, 30, 70, 500])
    value = at(data, path)
    for _ in range(depth):
        value = [value] if rng.random() < 0.5 else {"parts": value}
    put(data, path, value)
    return path, depth


def wrap(rng, data, other):
    inner = copy.deepcopy(data)
    data.clear()
    how = rng.choice(["list", "object", "composed", "one", "guarantee"])
    if how == "list":
        return json.dumps([inner]), how
    proof = certificate_in(inner)
    head = {
        "format": "pabi.certificate",
        "version": 2,
        "adjacency": proof.get("adjacency"),
        "assumes": [],
    }
    if how == "composed":
        data.update(head | {"theorem": "composed", "parts": [proof] * rng.choice([1, 2])})
    elif how == "one":
        data.update(proof | {"one": proof})
    else:
        data.update(inner | {rng.choice(["certificate", MARK, "notes"]): inner})
    return how


def graft(rng, data, other):
    """A part of another honest file in the place of one of the same name."""
    given = {p[-1]: p for p in rng.sample(named(other, *GRAFTED), len(named(other, *GRAFTED)))}
    path = some(rng, (p for p in named(data, *GRAFTED) if p[-1] in given))
    put(data, path, copy.deepcopy(at(other, given[path[-1]])))
    return path, given[path[-1]]


def graft_new(rng, data, other):
    """A part of another honest file where there is none of that name."""
    path = some(
        rng, named(other, *GRAFTED, "alike", "cap", "prox", "diameter", "clip_norm", "failure")
    )
    at(data, some(rng, tables(data)))[path[-1]] = copy.deepcopy(at(other, path))
    return path


def versions(rng, data, other):
    path = some(rng, named(data, "format", "version", "kind", "theorem"))
    put(data, path, rng.choice([0, 1, 2, 3, 2.0, 1.0, True, "2", None, "pabi.certificate", "pabi.guarantee",
                                *(at(other, p) for p in named(other, "kind", "theorem"))]))  # fmt: skip
    return path, at(data, path)


def bomb(rng, data, other):
    path = some(
        rng,
        (
            p
            for p in places(data)
            if isinstance(at(data, p), (list, dict)) or is_number(at(data, p))
        ),
    )
    size = rng.choice([8, 7, 800, 1 << 20, (32 << 20) - 8, 33 << 20])
    raw = rng.choice([b"\0", b"\xff"]) * size
    put(data, path, packed(raw, rng.choice(["f8", "i8"])))
    return path, size


def not_finite(rng, data, other):
    """Packed NaN, infinities and negative numbers in the place of an array."""
    path = some(
        rng, (p for p in places(data) if isinstance(at(data, p), list) or p[-1] in encoded(data))
    )
    old = at(data, path)
    size = len(old) if isinstance(old, list) else 30
    values = [rng.choice([math.nan, math.inf, -1e9, -0.0, 0.0, 1.0]) for _ in range(size)]
    put(data, path, packed(np.array(values, dtype="<f8").tobytes()))
    return path, values[:4]


def encoded(data):
    return ("step_size", "noise_std", "q", "ends", "payments", "s", "sigma", "c", "shares")


def sentence(rng, data, other):
    """A sentence of what a file rests on left out, altered, or taken from elsewhere."""
    path = some(
        rng, (p for p in places(data) if len(p) > 1 and p[-2] in ("assumptions", "assumes"))
    )
    lines, i = at(data, path[:-1]), path[-1]
    how = rng.choice(["drop", "shorten", "number", "case", "space", "other", "all"])
    text = lines[i]
    if how == "drop":
        del lines[i]
    elif how == "all":
        lines.clear()
    elif how == "other":
        lines[i] = rng.choice(other.get("assumptions") or ["nothing"])
    else:
        changed = {"shorten": text[:-1], "case": text.capitalize(), "space": text + " "}
        lines[i] = changed.get(how) or text.replace(
            rng.choice("0123456789"), rng.choice("0123456789")
        )
    return path, how


def other_adjacency(rng, data, other):
    for path in rng.sample(found := named(data, "adjacency"), rng.randrange(1, len(found) + 1)):
        put(data, path, "zero_out" if at(data, path) == "replace_one" else "replace_one")
    return "adjacency"


def notes(rng, data, other):
    if data.get("format") != "pabi.guarantee" or data["version"] != 2:
        raise Skip
    if rng.random() < 0.2:
        data.pop("notes", None)
    else:
        data["notes"] = {
            rng.choice(["composition", "epsilon", "mu", "ü"]): rng.choice([*ODD, other])
        }
    return "notes"


def other_name(rng, data, other):
    key = rng.choice(["method", "source"])
    if key not in data or key not in other:
        raise Skip
    data[key] = rng.choice([other[key], data[key] + " ", data[key].upper(), ""])
    return key, data[key]


def two(rng, data, other):
    """Two at once."""
    done = [rng.choice(PLAIN)(rng, data, other) for _ in range(2)]
    if any(map(is_text, done)):
        raise Skip
    return tuple(map(str, done))


def cut(rng, data, other):
    """A text cut or garbled at one place."""
    text = json.dumps(data)
    i = rng.randrange(len(text))
    new = rng.choice(["", *'0123456789.-eE"[]{},:x\\'])
    return (text[:i] if rng.random() < 0.3 else text[:i] + new + text[i + 1 :]), i, new


PLAIN = (
    *[edit] * 9, rename, move, swap, extend, graft, graft_new, versions, sentence, other_adjacency,
    other_name,
)  # fmt: skip
STRUCTURAL = (*PLAIN * 3, textual, wrap, not_finite, notes, two, two, cut, bomb, deepen)


# Alterations of the numbers.


def arrays(data):
    return [
        p
        for p in places(data)
        if isinstance(at(data, p), list)
        and len(at(data, p)) > 1
        and p[-1] not in ("assumptions", "assumes")
    ]


def edited_number(rng, data, other):
    """A number, or one of a packed array, edited; or entries of a list."""
    path = some(rng, (p for p in places(data) if is_number(at(data, p)) or p[-1:] == ("f8",)))
    path = path[:-1] if path[-1] == "f8" else path
    if rng.random() < 0.3 and len(path) > 1:
        path = path[:-1]
    edited = edits(data, path, [], rng.randrange(1 << 16))
    name = rng.choice([name for name in edited if name not in (TWICE_IN_THE_TEXT, "no number")])
    put_edit(data, path, name, edited[name])
    return path, name


def lowered(rng, data, other):
    """What is claimed, everywhere, lowered by 1e-6: μ, ε, δ, weights, probabilities or counts."""
    proof = certificate_in(data)
    roots = [
        (data, p) for p in named(data, "tradeoff", "mu") if p[0] != "certificate" and p[0] in data
    ]
    roots += [(data, (key,)) for key in ("epsilon", "delta") if key in data]
    roots += [(proof, p) for p in named(proof, "claim", "reading")]
    kind = rng.choice(["mu", "epsilon", "probability", "weights", "count", "all"])
    changed = 0
    for root, path in roots:
        inner = at(root, path)
        found = [()] if is_number(inner) else [p for p in places(inner) if is_number(at(inner, p))]
        for p in found:
            keys = {k for k in (*path[-1:], *p) if isinstance(k, str)}
            if kind != "all" and not keys & {kind, kind + "s", kind[:-1]}:
                continue
            value = at(root, (*path, *p))
            if not is_number(value):
                continue
            put(root, (*path, *p), value - 1 if "count" in keys else value * (1 - 1e-6))
            changed += 1
    if not changed:
        raise Skip
    return kind, changed


def swap_arrays(rng, data, other):
    first = some(rng, arrays(data))
    second = some(rng, (p for p in arrays(data) if p != first and p[: len(first)] != first
                        and first[: len(p)] != p))  # fmt: skip
    a, b = at(data, first), at(data, second)
    put(data, first, b)
    put(data, second, a)
    return first, second


def moved_payment(rng, data, other):
    """What one step pays is paid at another."""
    names = ("payments", "q", "pulls", "shares", "ends", "lengths")
    path = some(
        rng,
        (p for p in named(data, *names) if isinstance(at(data, p), list) and len(at(data, p)) > 1),
    )
    part = at(data, path)
    i, j = rng.sample(range(len(part)), 2)
    share = rng.choice([1.0, 0.5, 1e-6])
    part[i], part[j] = part[i] - share * part[i], part[j] + share * part[i]
    return path, i, j, share


def weights(rng, data, other):
    """Probability moved from one part to another, in the claim and in the trade-off function."""
    found = named(data, "weights", "mixture")
    path = some(rng, (p for p in found if len(at(data, p)) > 1))
    part = at(data, path)
    i, j = rng.sample(range(len(part)), 2)
    if path[-1] == "weights":
        part[i], part[j] = part[i] * (1 - 1e-6), part[j] + part[i] * 1e-6
    else:
        part[i][0], part[j][0] = part[i][0] * (1 - 1e-6), part[j][0] + part[i][0] * 1e-6
    return path, i, j


ARITHMETIC = (*[edited_number] * 5, lowered, swap_arrays, moved_payment, weights)


# Trying them.


def altered(kinds, seed):
    """(name of the honest file, kind, what was done, the file as text or object) of one seed."""
    files = honest_files()
    names = sorted(files)
    for attempt in range(1000):
        rng = random.Random(f"{seed} {attempt}")
        name, another = rng.choice(names), rng.choice(names)
        if name in SLOW | SAMPLED | {"new composed, one sampled"} and rng.random() < 0.95:
            continue
        kind = kinds[seed % len(kinds)] if attempt < 40 else rng.choice(kinds)
        data, other = json.loads(files[name]), json.loads(files[another])
        try:
            done = kind(rng, data, other)
        except (Skip, KeyError, IndexError, AttributeError, TypeError, ValueError, OverflowError):
            continue
        as_text = kind is cut or is_text(done)
        file = done[0] if as_text else data
        if rng.random() < 0.7 and not as_text:
            try:
                file = json.dumps(data)
            except ValueError:
                continue
        return name, kind.__name__, str(done[1:] if as_text else done)[:300], file
    raise AssertionError(f"nothing to do for seed {seed}")


def answer(file):
    """(verdict, None) or (None, what was raised), and the seconds that it took."""
    begin = time.process_time()
    try:
        return pabi.verify(file), None, time.process_time() - begin
    except Exception as error:
        return None, error, time.process_time() - begin


def told(verdict):
    """A verdict as its fields."""
    return (
        verdict.ok,
        verdict.reason,
        verdict.mu,
        verdict.adjacency,
        verdict.assumptions,
        verdict.scope,
    )


def tried(kinds, seeds):
    """What came of the alterations of these seeds. All are answered before any is judged, so that the memory
    is what answers take."""
    counted, wrong, accepted, slowest = Counter(), [], [], (0.0, "")
    for seed in seeds:
        name, kind, done, file = altered(kinds, seed)
        verdict, error, seconds = answer(file)
        where = f"seed {seed}, {name}, {kind}: {done}"
        slowest = max(slowest, (seconds, where))
        if seconds > MOST_SECONDS:
            wrong.append(f"{where}: took {seconds:.1f} s")
        if error is not None and not (type(error) is pabi.InvalidInput and error.field in FIELDS):
            wrong.append(f"{where}: raised {error!r}")
        outcome = "raised" if error is not None else "accepted" if verdict.ok else "refused"
        counted[f"{kind} {outcome}"] += 1
        if outcome == "accepted" or (outcome == "refused" and kind == "notes"):
            accepted.append((seed, where, verdict))
    most = megabytes()
    for seed, where, verdict in accepted:
        problem = judged(kinds, seed, verdict)
        if problem is not None:
            wrong.append(f"{where}: {problem}")
    return {"counted": counted, "wrong": wrong, "slowest": slowest, "megabytes": most}


def judged(kinds, seed, verdict):
    """What is wrong with the answer to one seed, or that nobody could say."""
    name, kind, _, file = altered(kinds, seed)
    try:
        return problem_of(name, kind, file, verdict)
    except Exception as error:
        return f"accepted, although nobody can say what it is: {error!r}"


def problem_of(name, kind, file, verdict):
    """What is wrong with an answer, or None."""
    if kind == "notes":
        honest = pabi.verify(honest_files()[name])
        return None if told(honest) == told(verdict) else f"notes matter: {verdict.reason}"
    if not verdict.ok:
        return None if verdict.reason else "no reason"
    data = json.loads(file) if isinstance(file, str) else json.loads(json.dumps(file))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return wrong_with(data, json.loads(honest_files()[name]), verdict)


def megabytes():
    """The most memory that this program ever had. (What `getrusage` says counts that of the process which
    started it as well.)"""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    which, begin, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    found = tried({"structural": STRUCTURAL, "arithmetic": ARITHMETIC}[which], range(begin, end))
    print(json.dumps(found))
