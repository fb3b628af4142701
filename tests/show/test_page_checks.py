"""What a report checks in a real browser, beside truth in 40 digits; and how it looks there.

Signatures are verified by the browser's own Ed25519, and hashes by its own SHA-256.
"""

import base64
import contextlib
import dataclasses
import functools
import itertools
import re
from unittest import mock

import mpmath
import pytest

import pabi
from pabi import tradeoff
from pabi.show import attesting as signatures
from pabi.show.report import Source, report_on
from pabi.verification import verify
from support.browsers import (
    chromium,
    complaints,
    emulate,
    findings,
    from_elsewhere,
    needs_axe,
    needs_chromium,
    requests,
)
from support.every_case import every
from support.normal_mixtures import gaussian_delta

pytestmark = needs_chromium

DELTA = 1e-6
LOSS = pabi.Loss.logistic(feature_norm=1.0, l2=0.01)
RUN = pabi.NoisySGD(
    LOSS, n=20_000, batches=pabi.Cyclic(size=500), epochs=10, step_size=0.5, noise_std=0.015
)


@functools.cache
def guarantee():
    return RUN.guarantee(DELTA)


@pytest.fixture(scope="module")
def driver():
    with chromium() as driver:
        emulate(driver)
        yield driver


@pytest.fixture
def opened(driver, tmp_path):
    """Opens a page from the disk, and returns what it says it checked; it asks nobody, and nothing fails."""

    def opening(text):
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        driver.get(path.as_uri())
        driver.execute_async_script(
            "const [done] = arguments; const place = document.getElementById('checks');"
            "const wait = () => place.dataset.state ? done() : setTimeout(wait, 5); wait();"
        )
        return [
            item.text for item in driver.find_elements("css selector", "#checks li") if item.text
        ]

    yield opening
    assert from_elsewhere(requests(driver), "file:") == []
    assert complaints(driver) == []


def source(raw, *signed):
    text = signatures.signatures_text(signed) if signed else ""
    return Source(raw, signatures.read_signatures(text, raw) if signed else (), text)


@functools.cache
def page(*signed, one=None, picture=""):
    """A report; without its picture, which takes longer than all else, where that is not None."""
    one = guarantee() if one is None else one
    held = source(one.to_json().encode(), *signed)
    with contextlib.ExitStack() as stack:
        if picture is not None:
            stack.enter_context(
                mock.patch("pabi.show.formats.inline_picture", return_value=picture)
            )
        return report_on(one, "html", DELTA, verify(one), held)


# δ of Gaussian curves, above the truth and close to it.


PLACES = [
    (mu, epsilon)
    for mu in (1e-4, 0.003, 0.1, 0.27, 0.5, 1.0, 2.0, 4.168, 9.0, 40.0)
    for epsilon in (-1.0, 0.0, 1e-5, 1e-3, 0.3, 1.0, 5.0, 25.0, 300.0)
]


def test_the_bound_of_the_browser_is_above_the_truth(opened, driver):
    opened(page())
    found = driver.execute_script(
        "return arguments[0].map(([mu, epsilon]) => gaussianDelta(mu, epsilon))", PLACES
    )
    close = 0
    for (mu, epsilon), bound in zip(PLACES, found, strict=True):
        true = gaussian_delta(mu, epsilon)
        assert bound >= true, (mu, epsilon)
        # What is lost lies in two terms of which the first is at most 1.
        assert bound <= true + mpmath.mpf(10) ** -12, (mu, epsilon)
        close += bound <= true * (1 + mpmath.mpf(10) ** -9)
    assert close > len(PLACES) / 3
    for mu, epsilon, least in ((0.0, 1.0, 0.0), (0.0, -1.0, 1.0), (float("inf"), 1.0, 1.0)):
        script = "return gaussianDelta(Number(arguments[0]), arguments[1])"
        assert driver.execute_script(script, str(mu).replace("inf", "Infinity"), epsilon) == least


def test_tails_are_enclosed(opened, driver):
    opened(page())
    places = [-38.0, -5.0, -1e-9, 0.0, 1e-9, 0.5, 0.999999, 1.0, 1.7, 3.6, 12.0, 36.9, 37.1, 60.0]
    found = driver.execute_script("return arguments[0].map(tail)", places)
    for x, (low, high) in zip(places, found, strict=True):
        true = mpmath.ncdf(-mpmath.mpf(x))
        assert low <= true <= high, x
        if 0.0 <= x < 37.0:
            assert high <= low * (1 + 1e-12), x


def test_what_is_read_of_a_curve_is_above_its_own_delta(opened, driver):
    mixture = tradeoff.Mixture((tradeoff.Gaussian(0.1), tradeoff.Gaussian(0.9)), (0.5, 0.5))
    many = tradeoff.Mixture([tradeoff.Gaussian(0.1 + k / 100) for k in range(100)], [0.01] * 100)
    curves = {
        "gaussian": tradeoff.Gaussian(0.5),
        "mixture": mixture,
        "packed": many,
        "computed": tradeoff.Product(((mixture, 1),), rounding=1e-8),
        "failing": tradeoff.Product(((mixture, 1),), failure=1e-7),
        "best": tradeoff.Best((tradeoff.Gaussian(0.5), tradeoff.ApproxDP(0.2, 1e-7))),
    }
    opened(page())
    for (name, one), epsilon in itertools.product(curves.items(), (0.0, 0.3, 1.0, 4.0)):
        found = driver.execute_async_script(
            "deltaOf(arguments[0], arguments[1]).then(arguments[2])", one.to_dict(), epsilon
        )
        own = (tradeoff.Gaussian(0.5) if name == "best" else one).delta(epsilon)
        assert own * (1 - 1e-9) <= found <= own * (1 + 1e-6) + 1e-12, (name, epsilon)


def test_mass_that_is_in_no_case_promises_nothing(opened, driver):
    curve = {"kind": "mixture", "mus": [0.1, 0.9], "weights": [0.5, 0.25]}
    ask = "deltaOf(arguments[0], arguments[1]).then(arguments[2])"
    assert driver.execute_async_script(ask, curve, 50.0) == pytest.approx(0.25, abs=1e-12)
    whole = curve | {"weights": [0.1] * 10, "mus": [0.1] * 10}  # whose sum is not quite 1
    assert driver.execute_async_script(ask, whole, 50.0) < 1e-200


def test_other_curves_are_left_to_python(opened):
    one = dataclasses.replace(
        guarantee(), curve=tradeoff.PoissonSubsampled(1.0, 0.05).self_compose(30), proof=None
    )
    said = opened(page(one=one))
    assert said[0].startswith("✗ DOES NOT HOLD: The numbers of this page")
    assert [line for line in said if line.startswith("– ε was not computed again here")]


# What the page says.


def test_a_page_says_what_holds_and_what_it_cannot_tell(opened):
    said = opened(page())
    epsilon = re.escape(re.search(r'data-epsilon="(\S+)"', page())[1])
    assert said[0] == (
        "✓ holds: The file that this page holds has the SHA-256 "
        f"{signatures.digest(guarantee().to_json().encode())}, as this page says."
    )
    bound = re.fullmatch(rf"✓ holds: .* δ at ε = {epsilon} is at most (\S+), rounded up.*", said[1])
    true = gaussian_delta(guarantee().mu, float(epsilon.replace("\\", "")))
    assert true <= mpmath.mpf(bound[1]) <= DELTA
    assert said[2:] == [
        "– The proof, and whether the sentences of part 2 are true, were not checked here."
    ]


def signed(name="Ada", number=1, sentences=("one",)):
    crypto = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    key = crypto.Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    raw = guarantee().to_json().encode()
    return signatures.sign(signatures.stated(raw, name, "engineer", sentences), key)


def test_statements_are_verified_by_the_browser_itself(opened):
    one, other = signed(sentences=("ε at δ", "two")), signed("Bo", 2)
    typed = signatures.Signed(dataclasses.replace(one.statement, name="Cy"))
    forged = dataclasses.replace(one, signature=other.signature)
    exchanged = dataclasses.replace(other, key=one.key)
    elsewhere = signatures.Signed(dataclasses.replace(one.statement, sha256="0" * 64))
    said = opened(page(one, typed, forged, exchanged, elsewhere))[2:-1]
    assert [line.split(" “")[0] for line in said] == [
        "✓ holds:",
        "–",
        "✗ DOES NOT HOLD:",
        "✗ DOES NOT HOLD:",
        "✗ DOES NOT HOLD:",
    ]
    assert f"2 sentences: signed with the key {one.key}." in said[0]
    assert "typed, not signed" in said[1]
    assert "about another file" in said[4]


def test_a_page_of_which_one_part_was_changed_says_so(opened):
    honest = page(signed())
    held = re.search(r'id="guarantee.json" download="\S+" href="\S+?,(\S+)"', honest)[1]
    raw = base64.b64decode(held)
    other = base64.b64encode(raw.replace(b'"assumptions"', b'"assumption5"')).decode()
    said = opened(honest.replace(held, other))
    assert said[0].startswith("✗ DOES NOT HOLD: The file that this page holds")
    assert "about another file, or the file was changed" in said[2]
    said = opened(re.sub(r'data-epsilon="\S+"', 'data-epsilon="0.1"', honest))
    assert re.match("✗ DOES NOT HOLD: .*more than the δ = 1e-06 of this page", said[1])
    assert opened(honest.replace(held, "AAAA"))[0].startswith("✗ DOES NOT HOLD")


def test_a_changed_script_does_not_run(driver, tmp_path):
    """The policy of the page names its script by a hash."""
    path = tmp_path / "report.html"
    path.write_text(page().replace('"use strict";', '"use strict"; '), encoding="utf-8")
    driver.get(path.as_uri())
    assert "Nothing was checked here" in driver.find_element("id", "checks").text
    assert [text for text in complaints(driver) if "Content Security Policy" in text]


def test_the_file_is_saved_as_it_was(opened, driver):
    opened(page(signed()))
    for name in ("guarantee.json", "guarantee.json.sig"):
        link = driver.find_element("id", name)
        raw = base64.b64decode(link.get_attribute("href").partition(",")[2])
        assert link.get_attribute("download") == name
        if name.endswith(".sig"):
            (one,) = signatures.read_signatures(raw.decode(), guarantee().to_json().encode())
            assert one.trouble is None
        else:
            assert raw == guarantee().to_json().encode()


# How it looks.


def test_nothing_is_wider_than_the_screen(opened, driver):
    opened(page(signed(), picture=None))
    driver.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    for width in (1300, 900, 390):
        emulate(driver, width=width)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    emulate(driver)


def test_a_print_shows_what_is_folded_on_a_screen(opened, driver):
    opened(page())
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    folds = driver.find_elements("css selector", "details")
    assert folds
    assert all(fold.get_attribute("open") for fold in folds)


@needs_axe
@every("theme", ["light", "dark"])
def test_axe_finds_nothing_serious(opened, driver, theme):
    emulate(driver, theme=theme)
    opened(page(signed()))
    assert findings(driver) == []
    emulate(driver)
