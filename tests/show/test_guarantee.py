"""A report states the guarantee's own numbers, rounded up, and nothing that a file holds becomes markup.

Truth is the Gaussian pair and mixtures of it in 40 digits, and closed forms of (ε, δ)-privacy.
"""

import dataclasses
import functools
import itertools
import re
from html.parser import HTMLParser

import mpmath
import pytest
import yaml

import pabi
from pabi import tradeoff
from pabi.learn.plans import LEARNT, ONE_FIT, REPEATED, UNCLEAR, WORKER
from pabi.show.attesting import folded
from pabi.showing import shown
from pabi.tradeoff.guarantee import TESTING
from support.every_case import every
from support.falsification.honest_files import honest_files
from support.normal_mixtures import gaussian_delta
from support.tables import unit

DELTA = 1e-6
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
RUN = pabi.NoisySGD(
    LOSS, n=20_000, batches=pabi.Cyclic(size=500), epochs=10, step_size=0.5, noise_std=0.015
)
RUNS = {
    "gaussian": RUN,
    "mixture": dataclasses.replace(RUN, batches=pabi.ShuffleOnce(500)),
    "path": dataclasses.replace(RUN, release="path"),
}


@functools.cache
def guarantee(name="gaussian"):
    return RUNS[name].guarantee(DELTA)


def of_curve(curve, **changes):
    """A guarantee with this curve, which no certificate proves."""
    return dataclasses.replace(guarantee(), curve=curve, proof=None, composition=None, **changes)


def assert_rounded_up(text, true):
    """`text` is above `true`, by less than a unit of its last digit and what a float may lack."""
    assert mpmath.mpf(text) >= true * (1 - mpmath.mpf(10) ** -15)
    assert mpmath.mpf(text) - true < mpmath.mpf(str(unit(text))) + abs(true) * mpmath.mpf(10) ** -8


def number(pattern, text):
    """The one number that a pattern finds in a text."""
    (match,) = re.findall(pattern, text)
    return match


# The numbers, computed anew.


def delta_of(parts, epsilon):
    return mpmath.fsum(weight * gaussian_delta(mu, epsilon) for weight, mu in parts)


def epsilon_of(parts, delta):
    low, high = mpmath.mpf(0), mpmath.mpf(64)
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(parts, middle) > mpmath.mpf(delta) else (low, middle)
    return low  # less than 1e-17 below


def parts_of(curve):
    if isinstance(curve, tradeoff.Gaussian):
        return [(mpmath.mpf(1), curve.mu)]
    return [(mpmath.mpf(w), p.mu) for p, w in zip(curve.parts, curve.weights, strict=True)]


def rate_of(parts, fpr):
    """The true positive rate of a mixture: the least of e^ε·α + δ(ε) over all ε, here over many."""
    slopes = [mpmath.mpf(k) / 20 for k in range(-20, 130)]
    return min(mpmath.exp(e) * fpr + delta_of(parts, e) for e in slopes)


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("delta", [1e-6, 1e-4])
def test_numbers_are_those_of_the_curve(run, delta):
    one = guarantee(run)
    parts, text = parts_of(one.curve), one.report(delta=delta)
    assert_rounded_up(number(r"\| ε at δ = \S+ \| (\S+) \|", text), epsilon_of(parts, delta))
    half = delta_of(parts, mpmath.mpf(0))
    assert_rounded_up(number(r"by at most (\S+)% \(advantage", text), 100 * half)
    for words in (
        "right in at most (\\S+)% of all cases; 50%",
        "it is right in at most (\\S+)% of all",
    ):
        assert_rounded_up(number(words, text), 50 * (1 + half))
    rates = {r"at most (\S+)% of those who": 0.01, r"positives it finds at most (\S+)%\.": 0.001}
    for pattern, fpr in rates.items():
        rate = number(pattern, text)
        best = 100 * rate_of(parts, mpmath.mpf(fpr))
        assert mpmath.mpf(rate) >= best * (1 - mpmath.mpf(10) ** -3)
        assert mpmath.mpf(rate) <= best * (1 + mpmath.mpf(10) ** -3) + mpmath.mpf("0.01")
    table = text.split("| ε at most |\n")[1].split("\n\n")[0]
    readings = re.findall(r"^\| (\d\S*) \| (\S+) \|$", table, flags=re.M)
    assert len(readings) == 5
    for at, reading in readings:
        assert_rounded_up(reading, epsilon_of(parts, float(at)))


def test_numbers_of_approximate_privacy():
    """Those of (ε, δ)-DP in closed form."""
    epsilon, delta = mpmath.mpf("0.5"), mpmath.mpf(1e-6)
    text = of_curve(tradeoff.ApproxDP(0.5, 1e-6)).report(delta=1e-6)
    total = mpmath.exp(epsilon)
    assert_rounded_up(number(r"\| ε at δ = \S+ \| (\S+) \|", text), epsilon)
    assert_rounded_up(number(r"at most (\S+)% of those who", text), 100 * (total / 100 + delta))
    advantage = 1 - 2 * (1 - delta) / (1 + total)
    assert_rounded_up(number(r"by at most (\S+)% \(advantage", text), 100 * advantage)


@every("run", ["gaussian", "mixture"])
@every("delta", [1e-9, 1e-3])
def test_the_equivalent_has_the_same_epsilon(run, delta):
    one = guarantee(run)
    mu, epsilon = one.mu_equivalent(delta), epsilon_of(parts_of(one.curve), delta)
    assert epsilon_of([(1, mu)], delta) >= epsilon * (1 - mpmath.mpf(10) ** -12)
    assert epsilon_of([(1, mu * (1 - 1e-9))], delta) < epsilon


def test_the_equivalent_of_other_curves_is_marked_as_a_reading():
    assert guarantee().mu_equivalent(1e-3) == guarantee().mu
    assert "no guarantee" not in guarantee().report()
    for name, delta in (("approx", 1e-6), ("product", 1e-5), ("range", 1e-6)):
        one, epsilon = of_curve(CURVES[name]), CURVES[name].epsilon(delta)
        mu = one.mu_equivalent(delta)
        assert tradeoff.Gaussian(mu).epsilon(delta) >= epsilon, name
        assert tradeoff.Gaussian(mu * (1 - 1e-9)).epsilon(delta) < epsilon, name
        assert f"{shown(mu)}, a reading at one δ and no guarantee" in one.report(delta=delta)


def test_the_equivalent_where_epsilon_is_nothing_or_everything():
    nothing = of_curve(tradeoff.ApproxDP(0.0, 1e-4))
    mu = nothing.mu_equivalent(1e-3)  # ε is 0 there: the total variations agree
    assert nothing.epsilon(1e-3) == 0.0
    assert mu == pytest.approx(2 * float(mpmath.sqrt(2) * mpmath.erfinv(mpmath.mpf(1e-4))), 1e-9)
    assert of_curve(tradeoff.Gaussian(0.0)).mu_equivalent(0.5) == 0.0
    assert of_curve(tradeoff.ApproxDP(1.0, 1e-3)).mu_equivalent(1e-6) == float("inf")
    for bad in (0.0, 1.0, -1.0, float("nan"), "x"):
        with pytest.raises(pabi.InvalidInput, match="^delta: "):
            nothing.mu_equivalent(bad)


# Every kind of curve, file, adjacency and unit.

CURVES = {
    "gaussian": tradeoff.Gaussian(0.5),
    "no privacy": tradeoff.Gaussian(float("inf")),
    "perfect": tradeoff.Gaussian(0.0),
    "mixture": tradeoff.Mixture((tradeoff.Gaussian(0.1), tradeoff.Gaussian(0.9)), (0.5, 0.5)),
    "product": tradeoff.Subsampled(tradeoff.Gaussian(1.0), 0.05).self_compose(30),
    "poisson": tradeoff.PoissonSubsampled(1.0, 0.05).self_compose(30),
    "approx": tradeoff.ApproxDP(1.0, 1e-7),
    "pure": tradeoff.ApproxDP(1.0, 0.0),
    "range": tradeoff.BoundedRange(0.4),
    "best": tradeoff.Best((tradeoff.Gaussian(0.5), tradeoff.ApproxDP(0.2, 1e-7))),
    "selected": tradeoff.selected(tradeoff.Gaussian(0.3), 10.0, 1.0),
    "losses": tradeoff.PrivacyLossDistribution([0.6, 0.4], [0.4, 0.6]),
}
FORMATS = ("md", "html", "hf")


@pytest.mark.parametrize("form", ["md", "html"])
@pytest.mark.parametrize("kind", CURVES)
def test_every_kind_of_curve(kind, form):
    one = of_curve(CURVES[kind])
    text = one.report(form, 1e-5)
    assert shown(one.epsilon(1e-5)) in text
    assert "It has no certificate" in text
    assert (one.mu is None) == ("no guarantee" in text)


@every(
    ("unit_of_privacy", "adjacency"),
    list(itertools.product(("record", "user"), ("replace_one", "zero_out"))),
)
def test_every_unit_and_adjacency(unit_of_privacy, adjacency):
    one = of_curve(tradeoff.Gaussian(0.5), unit=unit_of_privacy, adjacency=adjacency)
    text = one.report()
    words = {"replace_one": "replaced by any other", "zero_out": "becomes zero"}
    for name, phrase in words.items():
        assert (f"| {name}: " in text) == (name == adjacency)
        assert (phrase in text.split("## Why")[0]) == (name == adjacency)
    assert ("| one user, " in text) == (unit_of_privacy == "user")
    assert "knows both data sets" in text


@pytest.mark.parametrize("part", range(14))
def test_every_honest_file(part):
    """All assumptions stand in it; diffusions, chains, mechanisms, ledgers, and what 0.1.0 wrote."""
    files = {name: text for name, text in honest_files().items() if "certificate" not in name}
    for name in [*files][part::14]:
        one = pabi.Guarantee.from_json(files[name])
        verdict, text = pabi.verify(one), one.report(delta=1e-3)
        assert verdict.ok, name
        assert f"scope {verdict.scope}" in text, name
        lines = text.replace("\\", "").replace("\u200b", "").splitlines()
        rows = [re.sub(r"^ *- (exactly: |\[ \] \d+: )?", "", line) for line in lines]
        rows = [row.split(" **Only the file’s word")[0] for row in rows]
        for sentence in one.assumptions:
            assert any(tells(row, sentence) for row in rows), (name, sentence)
        assert shown(one.epsilon(1e-3)) in text, name


def tells(row, sentence):
    """Whether a row says a sentence, which may stand beside others that differ from it in one number."""
    number = r"\d[\d.e+-]*"
    several = re.search(rf"({number}, )*{number} or {number}", row)
    if several is None:
        return row == sentence
    start, end = several.span()
    numbers = re.findall(number, several.group().replace(",", ""))
    return any(row[:start] + one + row[end:] == sentence for one in numbers)


@every(("unit", "counted"), [("record", "records"), ("user", "users")])
def test_the_size_is_counted_in_its_unit(unit, counted):
    one = pabi.NoisyAccuracy(300, 0.5, unit=unit).guarantee(1e-4)
    assert f"There are n = 300 {counted}: " in one.report(delta=1e-4)
    assert f"There are n = 300 {counted}: " in one.for_groups(5).report(delta=1e-4)


def test_test_runs_refusals_and_several_releases_are_told_first():
    text = guarantee().for_testing().report("hf")
    assert yaml.safe_load(text.split("---")[1])["differential_privacy"]["limits"] == TESTING
    text = guarantee().for_testing().report()
    assert text.index(TESTING) < text.index("| Protects")
    assert "Do not rely on this. This protects nobody" in text
    assert "I decide" not in text
    false = dataclasses.replace(guarantee(), curve=tradeoff.Gaussian(0.01))
    for form in FORMATS:
        text = false.report(form)
        assert text.index("Do not rely on this. pabi’s checker refuses") < text.index("Protects")
        assert "There is nothing to decide" in text
        assert "STRONG" not in text
        assert "pabi sign" not in text
        assert "nothing shows that no such sentence is missing" not in text  # none is derived
    stated = yaml.safe_load(false.report("hf").split("---")[1])["differential_privacy"]
    assert stated["verified"] is False
    together = pabi.compose(guarantee(), guarantee("path"))
    assert "two such sentences may differ" in together.report("md")
    assert "two such sentences" not in guarantee().report("md")


def test_that_some_records_alone_are_spoken_of_stands_on_top():
    text = RUN.guarantee(DELTA, position=1).report()
    assert text.index("speaks of records of batch 1 alone") < text.index("| Protects")


@pytest.mark.parametrize("pattern", [LEARNT, REPEATED, UNCLEAR, WORKER])
def test_other_uses_of_the_same_data_stand_on_top(pattern):
    sentence = pattern.format(step="PCA", learns="mean", holder="a search")
    assuming = guarantee().assuming(sentence)
    for form in FORMATS if pattern is LEARNT else ("md",):
        text = assuming.report(form)
        assert text.index("may not be all that was revealed") < text.index("Protects")
        assert "may not be all" not in guarantee().assuming(ONE_FIT).report(form)
    top, letters = assuming.report().split("| Protects")[0], re.compile(r"\W")
    assert letters.sub("", sentence) in letters.sub("", top)


def test_delta_is_compared_with_the_number_of_records():
    assert "n = 20000 records: δ is 0.02 times 1/n" in guarantee().report(delta=1e-6)
    assert "n = 20000 records: δ is 0.0667 times 1/n" in guarantee().report(delta=3.333e-6)
    assert "promises little" not in guarantee().report(delta=1e-6)
    assert "promises little" in guarantee().report(delta=1e-4)
    assert "not known" in of_curve(tradeoff.Gaussian(0.5)).report()
    other = dataclasses.replace(RUN, n=40_000).guarantee(DELTA)
    assert re.findall(r"n = (\d+)", pabi.compose(guarantee(), other).report()) == ["20000", "40000"]


@every(
    ("arguments", "field"),
    [(("pdf",), "format"), (("md", 0.0), "delta"), (("md", 1.0), "delta"), (("md", "x"), "delta")],
)
def test_bad_arguments(arguments, field):
    with pytest.raises(pabi.InvalidInput) as error:
        guarantee().report(*arguments)
    assert error.value.field == field


# What a file holds stays text.

HOSTILE = (
    "</td></tr></table><script>alert(1)</script>",
    "a\n# A heading\n\n| x | y |",
    "[click](https://evil.example) ![p](https://evil.example/p.png) <img src=x onerror=y>",
    "`code` **bold** _it_ ~~no~~ \\| &lt; https://evil.example",
    "- a list\x1b[31m",
)
VOID = {"meta", "br", "hr", "img", "link", "input", "path", "use"}


class Parsed(HTMLParser):
    """The tags, attributes and text of a page; refuses tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text, self.script = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if self.open[-1:] == ["script"]:
            self.script.append(data)


@functools.cache
def hostile():
    return of_curve(
        tradeoff.Gaussian(0.5),
        assumptions=HOSTILE,
        method="$\\bad{$ <script>",
        source="<b>",
        notes={"releases": [{"pabi": "<script>", "date": "</td>", "parameters_sha256": ["<i>"]}]},
    )


def test_a_page_is_well_formed_and_loads_nothing():
    for one in (guarantee("mixture"), hostile()):
        page = Parsed(one.report("html"))
        assert not {"link", "img", "iframe", "object", "b", "i", "form"} & set(page.tags)
        assert page.tags.count("script") == 1
        names = {name for name, _ in page.attributes}
        assert not [name for name in names if name.startswith("on") or name == "src"]
        references = [value for name, value in page.attributes if name.endswith("href")]
        assert references
        here = ("#", "data:application/octet-stream;base64,")
        assert all(value.startswith(here) for value in references)
        style = " ".join(page.text) + " ".join(value or "" for _, value in page.attributes)
        assert set(re.findall(r"url\((.)", style)) <= {"#"}
        assert "@import" not in style
        assert "svg" in page.tags
    page = Parsed(guarantee("mixture").report("html"))
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    for name, value in page.attributes:
        if name == "href" and value.startswith("#"):
            assert value[1:] in ids
    assert "`" not in "".join(page.text).replace("".join(page.script), "")
    text = "".join(Parsed(hostile().report("html")).text)
    for sentence in HOSTILE:
        assert sentence.replace("\n", " ").replace("\x1b", " ") in text


@every("form", ["md", "hf"])
def test_hostile_sentences_are_text_in_markdown(form):
    from markdown_it import MarkdownIt

    honest = of_curve(tradeoff.Gaussian(0.5), assumptions=tuple("abcdefgh"[: len(HOSTILE)]))
    text, usual = (one.report(form).split("---\n\n# ")[-1] for one in (hostile(), honest))
    reader = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    kinds, others = (
        [token.type for block in reader.parse(t) for token in (block, *(block.children or ()))]
        for t in (text, usual)
    )
    for kind in ("heading_open", "table_open", "bullet_list_open", "paragraph_open"):
        assert kinds.count(kind) == others.count(kind) > 0, kind
    inline = ("html_block", "html_inline", "link_open", "image", "code_inline", "em_open", "s_open")
    for kind in inline:
        assert kinds.count(kind) == others.count(kind), kind
    read = "".join(child.content for block in reader.parse(text) for child in block.children or ())
    assert "</td></tr></table><script>alert(1)</script>" in read
    assert "\x1b" not in text


def test_metadata_of_a_model_card_are_yaml():
    one = guarantee("mixture")
    data = yaml.safe_load(one.report("hf").split("---")[1])
    assert data["tags"] == ["differential-privacy", "pabi"]
    stated = data["differential_privacy"]
    assert isinstance(stated["delta"], float)
    assert stated["delta"] == DELTA
    assert 0 <= stated["epsilon"] - one.epsilon(DELTA) < 1e-6
    assert stated["mu"] is None
    assert (stated["adjacency"], stated["unit"]) == ("replace_one", "record")
    assert stated["verified"] is True
    endless = of_curve(tradeoff.Gaussian(float("inf")), method='a: "b"\n- c')
    stated = yaml.safe_load(endless.report("hf").split("---")[1])["differential_privacy"]
    assert stated["epsilon"] == stated["mu"] == float("inf")
    assert stated["method"] == 'a: "b"\n- c'


def test_a_page_without_matplotlib(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = guarantee().report("html")
    assert "matplotlib is not installed" in text
    assert Parsed(text).tags.count("svg") == 1  # the scale of ε, which needs no other package
    assert guarantee()._repr_html_()


@pytest.mark.parametrize(("form", "unit"), [("md", "record"), ("html", "user"), ("hf", "user")])
def test_a_report_on_forgetting_compares_with_retraining(form, unit):
    """It promises nothing about two data sets, one of which has somebody else's record."""
    run = dataclasses.replace(RUN, unit=unit)
    text = run.unlearning(DELTA, epochs=1, records=3).report(form)
    assert "retrained" in text
    assert f"the withdrawn {unit}s, all together" in text
    assert f"which {unit}s were withdrawn" in text
    for of_data_sets in ("two data sets that", "membership inference", f"one {unit} is replaced"):
        assert of_data_sets not in text
        assert of_data_sets in run.guarantee(DELTA).report(form)


@pytest.mark.parametrize("form", ["md", "html"])
def test_a_report_on_forgetting_says_what_others_pay(form):
    """ε of those who stay, of the very runs; alarming where they lose, and where the file does not say."""
    dear = dataclasses.replace(RUN, loss=pabi.Loss.logistic(1.0, l2=0.0))
    whole = dataclasses.replace(dear, epochs=None, total_steps=2 * dear.steps)
    promised = dear.unlearning(DELTA, epochs=10, records=3)
    text = pabi.Guarantee.from_json(promised.to_json()).report(form)
    for run in (dear, whole):
        assert f"epsilon = {shown(run.guarantee(DELTA).epsilon(DELTA))}" in text
    lose = "Those who stay lose by going on"
    assert lose in text
    loss = pabi.Loss.logistic(1.0, l2=0.1)
    cheap = dataclasses.replace(RUN, loss=loss).unlearning(DELTA, epochs=1)
    assert lose not in cheap.report(form)
    assert "What it costs those who stay" in cheap.report(form)
    for notes in ({}, {"those_who_stay": {"delta": "<b>"}}, {"those_who_stay": [1]}):
        silent = dataclasses.replace(promised, notes=notes).report(form)
        assert "does not say what it cost those who stay" in silent
        assert "&lt;b" not in silent
        assert "<b>" not in silent
    assert "those who stay" not in guarantee().report(form)


# Sentences that differ in one number.


def test_sentences_that_differ_in_one_number_are_told_once_and_no_others():
    sentences = ["noise is fresh", "divided by 168", "the last 9 steps of 20", "divided by 1e-05"]
    assert folded([*sentences, "divided by 21.5"]) == (
        "noise is fresh",
        "divided by 1e-05, 21.5 or 168",
        "the last 9 steps of 20",
    )
    assert folded(["1 of 5 in G2", "3 of 5 in G2"]) == ("1 or 3 of 5 in G2",)
    sentences = ("the last 9 steps of 20", "the last 8 steps of 30")
    assert folded(sentences) == sentences
    sentences = ("feature x1 is public", "feature x2 is public")
    assert folded(sentences) == sentences
