"""Files made to take long or much: each has to be answered within 10 s and 500 MB.

`python -m support.falsification.hostile_files NAME …`, run in `tests`, answers these and prints what came of
each as JSON.
"""

import base64
import json
import resource
import sys
import time
import warnings
import zlib
from pathlib import Path

import numpy as np

import pabi
from support.falsification.edits import packed
from support.falsification.honest_files import OLD

MOST_SECONDS, MOST_MEGABYTES = 10.0, 500.0
FIELDS = ("json", "format", "version")  # of what is no certificate at all

# Those that cost little, one of every sort.
OFTEN = (
    "an unfinished string", "a long name", "ten megabytes", "half a million arrays", "deep objects",
    "brackets alone", "a shared list", "shared texts", "an object that holds itself",
    "a list that holds itself", "digits", "as many zeros as are read", "more zeros than are read",
    "ends without end", "a long run", "a long sampled run", "many rounds", "a thousand factors",
    "a tiny δ",
)  # fmt: skip


def read(name):
    return json.loads((OLD / f"{name}.json").read_text())


def text(data):
    return json.dumps(data, separators=(",", ":"))


def inside(name, **changes):
    """A file of 0.1.0 with other things in its certificate."""
    data = read(name)
    data["certificate"] |= changes
    return data


def with_run(name, **changes):
    data = read(name)
    data["certificate"]["run"] |= changes
    for given, other in (("steps", "epochs"), ("noise_std", "noise_multiplier")):
        if given in changes:
            data["certificate"]["run"].pop(other, None)
    return data


def with_case(name, **changes):
    data = read(name)
    data["certificate"]["cases"][0] |= changes
    return data


def zeros(size, key="f8"):
    """Packed zeros, without holding them."""
    pack, out = zlib.compressobj(9), []
    for _ in range(0, size, 1 << 24):
        out.append(pack.compress(bytes(min(size, 1 << 24))))
    return {key: base64.b64encode(b"".join([*out, pack.flush()])).decode()}


def nested(depth, how):
    head = '{"format":"pabi.certificate","version":2,"x":'
    return head + how[0] * depth + "0" + how[1] * depth + "}"


def shared(depth):
    value = ["a"]
    for _ in range(depth):
        value = [value, value]
    return {"format": "pabi.certificate", "version": 2, "x": value}


def cyclic_object():
    data = read("cyclic")
    data["certificate"]["run"]["loss"] = data
    return data


def cyclic_list():
    data, own = read("cyclic"), []
    own.append(own)
    data["certificate"]["cases"] = own
    return data


def composed(name, parts):
    """A composition of many equal parts."""
    head = {"format": "pabi.certificate", "version": 2, "theorem": "composed", "assumes": []}
    part = text(read(name)["certificate"])
    return (
        text(head | {"adjacency": "replace_one", "parts": 0})[:-2]
        + f"[{','.join([part] * parts)}]}}"
    )


def mixtures(many, gaussians, inner=False):
    data = read("shuffle-once")
    pairs = [
        {"kind": "mixture", "weights": [1 / many] * many, "mus": mus.tolist(), "count": 1}
        for mus in (5.0 + np.arange(many) * 1e-3, 5.0 + np.arange(many) * 1.1e-3)
    ]
    curve = {
        "kind": "product",
        "factors": pairs + [{"kind": "gaussian", "mu": 1.0, "count": 1}] * gaussians,
    }
    data |= {"tradeoff": curve, "mu": None}
    if inner:
        data["certificate"]["claim"] = {"tradeoff": curve}
    return data


def many_factors(many, count, inner=False):
    data = read("fixed-size")
    more = [
        {"kind": "subsampled", "mu": 0.1 + 1e-4 * i, "probability": 0.01, "count": count}
        for i in range(many)
    ]
    data["tradeoff"]["factors"] += more
    data |= {"epsilon": 1e6, "delta": 1e-5, "version": 2}
    data["certificate"] |= {"version": 1}
    if inner:
        data["certificate"]["claim"] = {"product": data["tradeoff"]}
        data["certificate"]["reading"] = {"epsilon": 3.0, "delta": 1e-9}
    for key in ("tuned_at", "composition"):
        data.pop(key, None)
    return data


def rows(many):
    """A stated modulus of many rows, at each of many steps."""
    bent = [{"kind": "sqrt", "kappa": 1.0 + i * 1e-9, "h": 1.0} for i in range(many)]
    ones = packed(np.ones(10_000).tobytes())
    return inside(
        "iteration-moduli",
        moduli=[{"kind": "minimum", "parts": bent}],
        which=None,
        start=0.0,
        steps={"s": ones, "sigma": ones},
        cases=[{"tau": 0, "distance": 0.0, "payments": packed(np.full(10_000, 0.5).tobytes())}],
    )


def holder(many):
    """A loss of many exponents and a run of many step sizes, each of which needs all of them."""
    pairs = [[round((i + 0.5) / many, 8), 1.0] for i in range(many)]
    loss = {"kind": "weakly_smooth", "pairs": pairs, "gradient_bound": 1.0}
    data = with_run(
        "nonlinear-run", loss=loss, step_size=packed(np.linspace(0.01, 0.02, 300).tobytes())
    )
    data["certificate"] |= {"alike": False, "position": 0}
    data["certificate"]["cases"][0] |= {"uses": [0, 30, []], "tau": 0, "distance": 0.0}
    data["certificate"]["cases"][0]["payments"] = packed(np.ones(300).tobytes())
    return data


def noises(many):
    """A sampled run of many noises, each of which is a factor."""
    noise = 2.0 + np.arange(many) * 1e-6
    return with_run("fixed-size", epochs=None, steps=many, noise_std=packed(noise.tobytes()))


def unfinished(size):
    return '{"' + '\\"' * size


def repeated_members(count, member):
    data = text(inside("cyclic", cases=["HERE"]))
    return data.replace('"HERE"', ",".join([member] * count))


HUGE = 10**18

FILES = {
    "an unfinished string": lambda: unfinished(4_000_000),
    "many unfinished strings": lambda: '{"' + '"\\' * 4_000_000,
    "a long name": lambda: with_run("cyclic", **{"a" * 7_000_000: 1}),
    "a long kind": lambda: with_run("cyclic", loss={"kind": "a" * 7_000_000}),
    "a long method": lambda: read("cyclic") | {"method": "a" * 7_000_000},
    "a long format": lambda: {"format": "a" * 8_000_000},
    "ten megabytes": lambda: text(read("cyclic") | {"notes": "a" * 10_000_000}),
    "notes of seven megabytes": lambda: read("cyclic") | {"composition": ["ab"] * 1_000_000},
    "small objects": lambda: repeated_members(1_000_000, '{"":1}'),
    "half a million objects": lambda: repeated_members(500_000, '{"":1}'),
    "half a million arrays": lambda: repeated_members(500_000, "[0.25]"),
    "many numbers": lambda: repeated_members(1_600_000, "0.25"),
    "many texts": lambda: repeated_members(1_500_000, '"ab"'),
    "many keys": lambda: text(inside("cyclic", cases=[{f"{i:x}": 0 for i in range(700_000)}])),
    "deep objects": lambda: nested(1_000_000, ('{"":', "}")),
    "deep arrays": lambda: nested(2_000_000, "[]"),
    "brackets alone": lambda: "[" * 8_000_000,
    "a shared list": lambda: shared(60),
    "shared texts": lambda: {"format": "pabi.certificate", "version": 2, "x": ["a" * (1 << 20)] * 1000},
    "an object that holds itself": cyclic_object,
    "a list that holds itself": cyclic_list,
    "digits": lambda: '{"format":' + "9" * 8_000_000 + "}",
    "decimals": lambda: '{"format":0.' + "0" * 4_000_000 + "1" * 4_000_000 + "}",
    "megabytes of zeros": lambda: with_run("varying", step_size=zeros(1 << 20)),
    "as many zeros as are read": lambda: with_run("varying", step_size=zeros((32 << 20) - 8)),
    "more zeros than are read": lambda: with_run("varying", step_size=zeros(33 << 20)),
    "a gigabyte of zeros": lambda: with_case("varying", q=zeros(1 << 30)),
    "four gigabytes of zeros": lambda: with_case("varying", q=zeros(4 << 30)),
    "ends without end": lambda: with_case("varying", q=zeros(15 << 20), ends=zeros(15 << 20, "i8")),
    "zeros of steps": lambda: inside(
        "iteration-written", steps={name: zeros(10 << 20) for name in ("c", "s", "sigma")}
    ),
    "zeros of bent steps": lambda: inside(
        "iteration-moduli",
        steps={name: zeros(8 << 20) for name in ("s", "sigma")},
        which=zeros(8 << 20),
    ),
    "zeros of payments": lambda: with_case("nonlinear-run", payments=zeros(31 << 20)),
    "a long run": lambda: with_run("cyclic", steps=HUGE),
    "a long varying run": lambda: with_run("cyclic", steps=4_000_000, step_size=zeros(31 << 20)),
    "a long bent run": lambda: with_run("nonlinear-run", steps=HUGE),
    "a long shuffled run": lambda: with_run("shuffle-once", steps=HUGE),
    "a long reshuffled run": lambda: with_run("reshuffle", steps=HUGE),
    "a long sampled run": lambda: with_run("fixed-size", steps=HUGE),
    "a long capless run": lambda: with_run("poisson", n=HUGE, steps=HUGE),
    "a long two-sided run": lambda: with_run("poisson-replace", steps=HUGE),
    "many batches": lambda: with_run("shuffle-once", n=HUGE),
    "many records": lambda: with_run("two-sided", n=HUGE),
    "many chains": lambda: with_run("chains", chains=HUGE),
    "a long position": lambda: inside("position", position=HUGE),
    "times of groups": lambda: inside("iteration", groups=[[HUGE, [[HUGE, 0.9, 1.0, 2.0]]]]),
    "many groups": lambda: inside(
        "iteration", groups=[[1, [[1, 0.9, 1.0 + i, 2.0]]] for i in range(150_000)]
    ),
    "many rounds": lambda: with_run("iterated", epsilons=[0.1] * 1_500_000),
    "rounds within the limit": lambda: with_run("iterated", epsilons=[1e-3] * 200_000),
    "many cells": lambda: with_run("diffusion", inverse_temperature=zeros(31 << 20)),
    "many rows of a modulus": lambda: rows(50_000),
    "a few rows of a modulus": lambda: rows(1_000),
    "many exponents": lambda: holder(100_000),
    "a thousand exponents": lambda: holder(1_000),
    "many noises": lambda: noises(150_000),
    "too many noises": lambda: noises(400_000),
    "many parts": lambda: composed("cyclic", 8_000),
    "many parts with two bounds": lambda: composed("exponential", 5_000),
    "products of mixtures": lambda: mixtures(447, 100),
    "products of mixtures, claimed": lambda: mixtures(447, 100, inner=True),
    "a mixture of many": lambda: mixtures(100_000, 0),
    "a thousand factors": lambda: many_factors(1000, 1000),
    "a hundred factors": lambda: many_factors(95, 1000),
    "a hundred factors, often": lambda: many_factors(95, 10**9),
    "a thousand factors, claimed": lambda: many_factors(1000, 1000, inner=True),
    "a hundred factors, claimed": lambda: many_factors(95, 100, inner=True),
    "a tiny δ": lambda: inside("fixed-size", reading={"epsilon": 900.0, "delta": 1e-300}),
}  # fmt: skip


def megabytes():
    """The most memory that this program ever had. (What `getrusage` says counts that of the process which
    started it as well.)"""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def answered(name):
    """[name, seconds, what was said, whether that is an answer, the most memory so far]."""
    file = FILES[name]()
    if isinstance(file, dict) and not any(word in name for word in ("itself", "shared")):
        file = text(file)
    begin, fine = time.process_time(), True
    try:
        said = pabi.verify(file).reason
    except Exception as error:
        said, fine = repr(error), type(error) is pabi.InvalidInput and error.field in FIELDS
    return [name, time.process_time() - begin, said, fine, megabytes()]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps([answered(name) for name in sys.argv[1:]]))
