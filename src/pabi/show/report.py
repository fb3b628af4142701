"""What a guarantee says, for people who did not compute it: what an officer decides, what an engineer
attests, and what pabi proves. Every number is read from the guarantee and rounded up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from pabi.account.forgetting import bill_in_words, read_bill
from pabi.describe.accounted import RETRAINED, USUAL_DELTA, Compared, checked_adjacency
from pabi.learn.plans import not_covered
from pabi.numbers import validate
from pabi.numbers.encoding import parse_json
from pabi.numbers.showing import exact, shown, shown_down
from pabi.show.attesting import ROLES, Attestable, Attests, Signed, digest, folded, hidden, points
from pabi.show.formats import (
    BANDS_FROM,
    Block,
    Command,
    Embedded,
    Folded,
    Heading,
    Items,
    PaperLine,
    Paragraph,
    Picture,
    Report,
    Scale,
    Section,
    Table,
    Tick,
    Ticks,
    as_markdown,
    as_model_card,
    as_page,
)
from pabi.tradeoff import TradeOff
from pabi.tradeoff.certificate import (
    SHA256,
    Certificate,
    adjacent,
    curve_in_words,
    models_in,
    releases_in,
    stamp,
    whom,
)
from pabi.tradeoff.guarantee import FORMAT, INDEPENDENT, TESTING, Guarantee, limits
from pabi.verification import Verdict, verify
from pabi.verification.bounds import best_curve

# What a report says of two data sets, and what of a model that forgot beside one that was retrained.


@dataclass(frozen=True)
class Wording:
    """The sentences that depend on what is compared, some with a place for it, the unit or numbers."""

    promise: str
    outright: str
    attacker: str
    few: str
    even: str
    nothing_else: str


DATA_SETS = Wording(
    promise="Take two data sets that differ in one thing: {}. Whatever is computed from the release, any "
    "outcome is at most e^ε times as likely with the one as with the other, up to a probability of δ. "
    "Smaller numbers are more private. It speaks of what the release adds to what was known before, and not "
    "of what is true of people in general.",
    outright="Publishing one record outright, at random, satisfies any definition with δ = 1/n, so that δ "
    "has to be far below it.",
    attacker="An attacker knows both data sets, sees the release, and decides which of the two was used "
    "(membership inference). Whatever the attack:",
    few="If at most 1 % of its accusations of the innocent are allowed (false positives), it finds at most "
    "{} of those who were in (true positives).",
    even="Where either candidate is as likely as the other beforehand, it is right in at most {} of all "
    "cases (Bayes success; 50 % without the release).",
    nothing_else="Nor may anything else be released that was computed from the data, such as an accuracy on "
    "them: each is a release of its own, which has to be added.",
)
FORGETTING = Wording(
    promise="Records were withdrawn: {}. Whatever is computed from the model, any outcome is at most e^ε "
    "times as likely with the one as with the other, up to a probability of δ. The smaller the numbers, the "
    "more is forgotten. It speaks of this model alone. Checkpoints, stored data and models that were handed "
    "out before forget nothing, and it says nothing of the privacy of all other records.",
    outright="A model that shows one record outright, at random, is within δ = m/n of one that was retrained "
    "without m records, so that δ has to be far below 1/n.",
    attacker="An attacker knows all data and which {}s were withdrawn, sees the model, and decides whether "
    "it forgot them or was retrained. Whatever the attack:",
    few="If at most 1 % of retrained models may be taken for ones that forgot (false positives), it "
    "recognises at most {} of those that forgot (true positives).",
    even="Where either is as likely as the other beforehand, it is right in at most {} of all cases (Bayes "
    "success; 50 % without the model).",
    nothing_else="Nor may anything else be handed out that was computed from the withdrawn records, such as "
    "an accuracy on them: no later step takes it back.",
)


def wording(compared: Compared) -> Wording:
    """The sentences about what is compared."""
    return FORGETTING if compared == RETRAINED else DATA_SETS


# What others have published. Each number as its source has it.

_PUBLISHED: tuple[tuple[float, str, str, str], ...] = (
    (
        0.994,
        "0.994 to 13.69",
        "Google, language models of a keyboard: one user, δ = 1e-10",
        "Xu, Zhang 2024, “Advances in private training for production on-device language models”, Google",
    ),
    (
        1.0,
        "1",
        "Wikimedia, views of pages by country, 2017 to 2023: 30 views of one day",
        "README of the data set country_project_page_historical, Wikimedia",
    ),
    (
        2.0,
        "2",
        "Google, the language model VaultGemma: one sequence of 1024 tokens, δ = 1.1e-10",
        "VaultGemma Team 2025, arXiv 2510.15001",
    ),
    (
        2.0,
        "2 to 16",
        "Apple, statistics of use: one user on one day",
        "Desfontaines, “A list of real-world uses of differential privacy”, after Apple’s overview",
    ),
)


# What a report on a guarantee says.


_AROUND = (-4, -2, -1, 0, 1)  # powers of ten, times δ: where ε is read
_RATES = (1e-3, 1e-2, 0.1, 0.5)  # of false positives: where the curve is read
_FORMATS: Mapping[str, Callable[[Report, Guarantee], str]] = MappingProxyType(
    {"md": as_markdown, "html": as_page, "hf": as_model_card}
)
FORMATS = tuple(_FORMATS)
_SEVERAL = "Where numbers are joined by “or”, every release and every setting has its own of them."
_TOGETHER = (
    "Several releases are promised together. A sentence about iterates, batches, noise or what is released "
    "speaks of those releases that were computed in this way, so two such sentences may differ."
)
_OWN_WORD = "Only the file’s word adds this: nothing shows that no such sentence is missing."


@dataclass(frozen=True)
class Source:
    """The file that a report is about. `raw`: its bytes. `signed`: the statements in `signatures`, a text."""

    raw: bytes
    signed: tuple[Signed, ...] = ()
    signatures: str = ""


def report_on(
    guarantee: Guarantee,
    form: str,
    delta: float | None,
    verdict: Verdict | None = None,
    source: Source | None = None,
) -> str:
    """The report on a guarantee in one of `FORMATS`. `verdict`: the checker's, if it was asked; `source`: the
    file that holds the guarantee, None for one that was made here."""
    written = _FORMATS[validate.choice("format", form, FORMATS)]
    at = _delta(guarantee, delta)
    opinion = verify(guarantee) if verdict is None else verdict
    if source is None:
        source = Source(guarantee.to_json().encode())
    return written(contents(guarantee, at, opinion, source), guarantee)


def _delta(guarantee: Guarantee, delta: float | None) -> float:
    at = guarantee.tuned_at or USUAL_DELTA if delta is None else delta
    return validate.number("delta", at, above=0.0, below=1.0)


def contents(guarantee: Guarantee, delta: float, verdict: Verdict, source: Source) -> Report:
    """What the report says, with ε at `delta`; `verdict`: what the checker says of the guarantee."""
    sections = (
        Section("In short", _promise(guarantee, delta, verdict, source)),
        Section("Part 1: what the officer decides", _decided(guarantee, delta, verdict, source)),
        Section("Part 2: what the engineer attests", _attested(guarantee, verdict, source)),
        Section("Part 3: what pabi proves", _proven(guarantee, delta, verdict, source)),
        Section("Where it comes from", _origin(guarantee, delta, verdict, source)),
    )
    return Report("Privacy report", sections, _metadata(guarantee, delta, verdict))


# In short: the verdict before all numbers.


def _promise(
    guarantee: Guarantee, delta: float, verdict: Verdict, source: Source
) -> tuple[Block, ...]:
    success = shown(guarantee.bayes_success(), decimals=2, percent=True)
    accepted = f"yes, by pabi’s independent checker; scope {verdict.scope}"
    rows = (
        ("Protects", whom(guarantee.adjacency, guarantee.unit)),
        (
            "Adjacency",
            f"{guarantee.adjacency}: {adjacent(guarantee.adjacency, guarantee.unit)}",
        ),
        (f"ε at δ = {exact(delta)}", shown(guarantee.epsilon(delta))),
        (
            "An attacker’s guess",
            f"right in at most {success} of all cases; 50% without the release",
        ),
        ("Method", guarantee.method),
        ("Checked", accepted if verdict.ok else "no, see above"),
    )
    alarms = tuple(_alarms(guarantee, verdict, source))
    good = Paragraph(
        "pabi’s checker accepts the proof: the numbers are true if the sentences of part 2 are.",
        first=True,
    )
    return (
        *(alarms if alarms else (good,)),
        *([Folded("what the checker says", (verdict.reason,))] if not verdict.ok else []),
        Table(rows),
        Paragraph(
            wording(guarantee.adjacency).promise.format(
                adjacent(guarantee.adjacency, guarantee.unit)
            )
        ),
    )


def _alarms(guarantee: Guarantee, verdict: Verdict, source: Source) -> Iterator[Paragraph]:
    """What voids the promise, before anything else."""
    for limit in limits(guarantee.assumptions):
        if limit == TESTING:
            yield _alarm(f"This protects nobody: {limit}.")
        else:
            text = f"This speaks of {limit}. Nobody else is protected by these numbers."
            yield Paragraph(text, alarming=True)
    for sentence in not_covered(guarantee.assumptions):
        yield _alarm(f"The numbers below may not be all that was revealed: {sentence}.")
    if guarantee.proof is None:
        yield _alarm(
            "It has no certificate. Nobody can check it, and this report repeats what it states."
        )
    elif not verdict.ok:
        yield _alarm("pabi’s checker refuses its proof. Nothing below is proven.")
    elif verdict.scope == "iteration":
        yield Paragraph(
            "Only the arithmetic was checked: the steps of the training were taken as stated.",
            alarming=True,
        )
    for one in source.signed:
        if one.trouble is not None:
            yield _alarm(
                f"A statement under the name {one.statement.name!r} is not valid: {one.trouble}."
            )


def _void(guarantee: Guarantee, verdict: Verdict) -> bool:
    """Whether its numbers are not to be relied on, so that there is nothing to compare or to sign."""
    return (
        not verdict.ok
        or TESTING in guarantee.assumptions
        or bool(not_covered(guarantee.assumptions))
    )


def _alarm(text: str) -> Paragraph:
    return Paragraph(f"Do not rely on this. {text}", alarming=True)


# Who attested what.


def tickable(
    guarantee: Guarantee, verdict: Verdict, role: str, delta: float | None = None
) -> tuple[Attestable, ...]:
    """What an officer or an engineer may attest, in the order of its numbers in the report."""
    if role == "officer":
        return tuple(
            Attestable(text, (text,), Attests.PERSON)
            for text in decisions(guarantee, _delta(guarantee, delta))
        )
    if role == "engineer":
        every = points(guarantee.assumptions, added(guarantee, verdict))
        return (*_of(every, Attests.TRAINER), *_of(every, Attests.PERSON))
    return ()


def _of(every: Iterable[Attestable], who: Attests) -> tuple[Attestable, ...]:
    return tuple(point for point in every if point.who is who)


def _tick(point: Attestable, role: str, source: Source, *, note: str = "") -> Tick:
    """A sentence with those who attest all that it means exactly."""
    by = tuple(
        f"{_hand(one)}, under the name {one.statement.name}, {one.statement.date}"
        for one in source.signed
        if one.trouble is None
        and one.statement.role == role
        and set(point.exact) <= set(one.statement.sentences)
    )
    differs = point.exact != (point.text,)
    return Tick(point.text, folded(point.exact) if differs else (), by, note)


def _hand(one: Signed) -> str:
    return "typed, not signed" if one.key is None else f"signed with the key {one.key[:8]}…"


def added(guarantee: Guarantee, verdict: Verdict) -> tuple[str, ...]:
    """The assumptions that only the word of the file adds: no description implies them."""
    if not verdict.ok or guarantee.certificate is None:
        return guarantee.assumptions
    named = assumed(guarantee.certificate.payload)
    return tuple(
        one for one in guarantee.assumptions if one in named or one not in verdict.assumptions
    )


def assumed(value: Any) -> set[str]:
    """The sentences under `assumes` of a certificate and of those within it."""
    return {sentence for one in tables_in(value, "notes") for sentence in one.get("assumes", ())}


def tables_in(value: Any, besides: str | None = None) -> Iterator[dict[str, Any]]:
    """All tables in plain data, those in other ones as well, but for what stands under the key `besides`."""
    if isinstance(value, list):
        for entry in value:
            yield from tables_in(entry, besides)
    if isinstance(value, dict):
        yield value
        for key, entry in value.items():
            if key != besides:
                yield from tables_in(entry, besides)


def _paper(source: Source, role: str, what: str) -> PaperLine:
    return PaperLine(f"{what}, of the file with SHA-256 {digest(source.raw)}", role)


# Part 1: what the officer decides.


_NOTHING = Paragraph(
    "There is nothing to decide: these numbers are not to be relied on, for the reasons above.",
    alarming=True,
)


def decisions(guarantee: Guarantee, delta: float) -> tuple[str, ...]:
    """The sentences that no file and no engineer can answer for."""
    secret = hidden(guarantee.assumptions)
    reading = f"ε = {shown(guarantee.epsilon(delta))} at δ = {exact(delta)}"
    return (
        f"{reading} is small enough for these data, and for those who will have the model.",
        _right_unit(guarantee),
        "Whatever else was or will be computed from these data and given away is counted in these numbers, "
        "or was decided on by itself.",
        *(
            ["What must stay hidden is in the hands of people who are able to keep it hidden."]
            if secret
            else []
        ),
        "Who attests part 2 knows how the model was trained.",
    )


def _right_unit(guarantee: Guarantee) -> str:
    if guarantee.adjacency == RETRAINED:
        return "Those whose records were withdrawn are all who asked for it."
    protected = whom(guarantee.adjacency, guarantee.unit)
    if guarantee.unit == "record":
        return f"{protected.capitalize()} is what has to be protected: nobody has several of them."
    return f"{protected.capitalize()}: this is who has to be protected."


def _decided(
    guarantee: Guarantee, delta: float, verdict: Verdict, source: Source
) -> tuple[Block, ...]:
    rows = tuple(
        _tick(point, "officer", source) for point in tickable(guarantee, verdict, "officer", delta)
    )
    void = _void(guarantee, verdict)
    return (
        *((_NOTHING,) if void else _how_much(guarantee, delta)),
        Heading("What an attacker can do"),
        *attacks(guarantee),
        Heading("Why this δ"),
        *_about_delta(guarantee, delta, sizes_of(guarantee, verdict)),
        *_staying(guarantee),
        Heading("What must stay hidden"),
        *_about_hidden(guarantee),
        *(
            ()
            if void
            else (
                Heading("Decisions"),
                Ticks(rows),
                _paper(source, "officer", "I decide as ticked above"),
            )
        ),
    )


def _how_much(guarantee: Guarantee, delta: float) -> tuple[Block, ...]:
    if guarantee.adjacency == RETRAINED:  # what others publish compares data sets
        return ()
    epsilon = guarantee.epsilon(delta)
    own = f"▶ {shown(epsilon)}"
    about = f"this guarantee: {whom(guarantee.adjacency, guarantee.unit)}, δ = {exact(delta)}"
    rows = [(start, (text, what, source)) for start, text, what, source in _PUBLISHED]
    rows.append((epsilon, (own, about, "this file")))
    return (
        Heading("How much ε is"),
        Scale(epsilon),
        Paragraph(
            f"The names are those of machine learning ({BANDS_FROM}), where δ is small. They are a custom, "
            "and no proof. Others have published these, each of another unit, so that numbers alone do not "
            "compare:"
        ),
        Table(
            tuple(row for _, row in sorted(rows, key=lambda one: one[0])),
            ("ε", "of what", "source"),
        ),
    )


def _staying(guarantee: Guarantee) -> Iterator[Block]:
    """What forgetting costs everybody else, of guarantees of forgetting and where the file notes it."""
    bill = read_bill(guarantee.notes)
    if bill is None and guarantee.adjacency != RETRAINED:
        return
    yield Heading("What it costs those who stay")
    if bill is None:
        silent = "The file does not say what it cost those who stay. More steps cost them more: ask for it."
        yield Paragraph(silent, alarming=True)
        return
    yield Paragraph(
        "More steps, and more models, cost all whose records stay. This is noted in the file by "
        "whoever wrote it, and is no part of what is checked:"
    )
    yield Items(bill_in_words(bill))
    if bill.dear:
        loss = "Those who stay lose by going on: retraining without the records costs them less."
        yield Paragraph(loss, alarming=True)


def _about_delta(guarantee: Guarantee, delta: float, sizes: tuple[int, ...]) -> tuple[Block, ...]:
    meaning = (
        f"δ = {exact(delta)} is a probability that bounds what the promise of ε may leave out. "
        + wording(guarantee.adjacency).outright
    )
    if not sizes:
        return Paragraph(meaning), Paragraph("The number of records n is not known from the file.")
    counted = (
        f"{guarantee.unit.rpartition(' ')[2].removesuffix('s')}s"  # of "groups of 5 users": users
    )
    return Paragraph(meaning), *(_against(delta, n, counted) for n in sizes)


def _against(delta: float, n: int, counted: str) -> Paragraph:
    times = Decimal(exact(delta)) * n  # of δ as it stands in the sentence, not of its double
    about = f"There are n = {n} {counted}: δ is {shown(times, 3)} times 1/n"
    if times < 1:
        return Paragraph(f"{about}.")
    return Paragraph(f"{about}, which promises little.", alarming=True)


def attacks(guarantee: Guarantee) -> tuple[Paragraph, Items]:
    """What an attacker gains at most: who that is, and a sentence for each reading."""
    few, fewer = (shown(guarantee.tpr(r), decimals=2, percent=True) for r in (0.01, 0.001))
    advantage = shown(guarantee.advantage, decimals=2, percent=True)
    success = shown(guarantee.bayes_success(), decimals=2, percent=True)
    words = wording(guarantee.adjacency)
    return (
        Paragraph(words.attacker.format(guarantee.unit)),
        Items(
            (
                words.even.format(success),
                words.few.format(few),
                f"With 0.1 % false positives it finds at most {fewer}.",
                f"Its true positive rate exceeds its false positive rate by at most {advantage} (advantage).",
            )
        ),
    )


def _about_hidden(guarantee: Guarantee) -> tuple[Block, ...]:
    texts = hidden(guarantee.assumptions)
    closing = Paragraph(wording(guarantee.adjacency).nothing_else)
    if not texts:
        return Paragraph("Its assumptions name nothing that has to stay hidden."), closing
    opening = Paragraph("The promise ends where any of this is published, lent or logged:")
    return opening, Items(texts), closing


# Part 2: what the engineer attests.


def _attested(guarantee: Guarantee, verdict: Verdict, source: Source) -> tuple[Block, ...]:
    every = tickable(guarantee, verdict, "engineer")
    trained, personal = _of(every, Attests.TRAINER), _of(every, Attests.PERSON)
    all_own = all(point.own for point in every)  # of what nothing derives: said once, below

    def ticked_off(some: Iterable[Attestable]) -> tuple[Tick, ...]:
        notes = ((one, _OWN_WORD if one.own and not all_own else "") for one in some)
        return tuple(_tick(one, "engineer", source, note=note) for one, note in notes)

    several = any(len(folded(point.exact)) < len(point.exact) for point in every)
    blocks: list[Block] = [
        Paragraph(
            "The promise holds if all of these are true. No proof can show that; each has somebody who "
            "stands behind it."
        ),
        *([Paragraph(_TOGETHER)] if INDEPENDENT in guarantee.assumptions else []),
        *([Paragraph(_SEVERAL)] if several else []),
    ]
    if trained:
        blocks += [
            Heading("Done by pabi, where pabi’s own trainers executed the run"),
            Paragraph("If other code trained, whoever ran it attests these as well."),
            Ticks(ticked_off(trained)),
        ]
    if personal:
        blocks += [
            Heading("Known to nobody but those who ran it"),
            Ticks(ticked_off(personal), len(trained) + 1),
        ]
    return (
        *blocks,
        Heading("What only the file’s word adds"),
        *_by_word(guarantee, verdict),
        *(
            ()
            if _void(guarantee, verdict)
            else (_paper(source, "engineer", "I attest what is ticked above"),)
        ),
    )


def _by_word(guarantee: Guarantee, verdict: Verdict) -> tuple[Block, ...]:
    own = added(guarantee, verdict)
    if not own:
        return (Paragraph("Nothing: all sentences follow from the description in the file."),)
    return (
        Paragraph(
            "These follow from no description. Whoever writes the file can leave one out, and nothing would "
            "show it. Ask for each that you miss here."
        ),
        Items(own),
    )


# Part 3: what pabi proves.


def _proven(
    guarantee: Guarantee, delta: float, verdict: Verdict, source: Source
) -> tuple[Block, ...]:
    derived = _of(points(guarantee.assumptions), Attests.ACCOUNTANT)
    shape = curve_in_words(guarantee.curve)
    scaled = (float(Decimal(exact(delta)).scaleb(power)) for power in _AROUND)
    readings = tuple((exact(d), shown(guarantee.epsilon(d))) for d in scaled if 0.0 < d < 1.0)
    errors = tuple((exact(r), shown_down(guarantee.tradeoff(r))) for r in _RATES)
    return (
        *_checked(guarantee, verdict),
        *(
            block
            for point in derived
            for block in (Paragraph(point.text), Folded("the exact sentence", point.exact))
        ),
        Heading("The whole curve"),
        Paragraph(
            "The guarantee is a curve, which holds at every δ and against every attack at once: "
            f"{shape}. Its file has it exactly."
        ),
        Table((("μ", _mu(guarantee, delta)),)),
        Picture(),
        Table(readings, ("δ", "ε at most")),
        Table(errors, ("false positives", "false negatives at least")),
        Embedded(
            source.raw,
            source.signatures,
            shown(guarantee.epsilon(delta)),
            exact(delta),
            _void(guarantee, verdict),
        ),
    )


def _mu(guarantee: Guarantee, delta: float) -> str:
    if guarantee.mu is not None:
        return f"{shown(guarantee.mu)} (Gaussian differential privacy: it says everything)"
    equivalent = shown(guarantee.mu_equivalent(delta))
    return (
        f"none ({curve_in_words(guarantee.curve)}). With the same ε at this δ: {equivalent}, a reading at "
        "one δ and no guarantee"
    )


def _checked(guarantee: Guarantee, verdict: Verdict) -> tuple[Block, ...]:
    about = Paragraph(f"{guarantee.method}: {guarantee.source}.")
    if guarantee.proof is None:
        return about, Paragraph("There is no certificate, hence nothing to check.")
    scopes = {
        "run": "What every step does is derived again from the description in the file.",
        "iteration": "The steps are taken as the file states them.",
    }
    return (
        about,
        Paragraph(
            "The file of the guarantee has a certificate. A checker that shares no code with what found the "
            f"proof goes through it in exact arithmetic. {scopes.get(verdict.scope or '', '')}".rstrip()
        ),
        Command("pabi verify guarantee.json"),
        Paragraph(f"It says: {verdict}"),
    )


# Where it comes from.


def _origin(
    guarantee: Guarantee, delta: float, verdict: Verdict, source: Source
) -> tuple[Block, ...]:
    now = stamp()
    rows = [
        ("This report", f"pabi {now['pabi']}, {now['date']}"),
        ("SHA-256 of the file", digest(source.raw)),
    ]
    for number, one in enumerate(releases_in(guarantee.notes), 1):
        rows.append((f"Release {number}", f"pabi {one.get('pabi')}, {one.get('date')}"))
        rows.append((f"SHA-256 of release {number}", str(one.get(SHA256))))
    rows += [
        (f"SHA-256 of model {number}", one)
        for number, one in enumerate(models_in(guarantee.notes), 1)
    ]
    noted = len(rows) > 2
    return (
        Table(tuple(rows)),
        *(
            (
                Paragraph(
                    "Version, date and hashes of releases and models are notes of whoever wrote the file. "
                    "This compares them with a model, in a file of skops (or of PyTorch, model.pt):"
                ),
                Command("pabi verify guarantee.json --model model.skops"),
            )
            if noted
            else (Paragraph("The file notes no release of parameters."),)
        ),
        *_statements(
            source,
            {
                role: {s for one in tickable(guarantee, verdict, role, delta) for s in one.exact}
                for role in ROLES
            },
            _void(guarantee, verdict),
        ),
    )


def _statements(source: Source, here: Mapping[str, set[str]], void: bool) -> tuple[Block, ...]:
    """Who stands behind the file. `here`: the exact sentences of this report, by who may attest them; `void`:
    whether nobody should."""
    title = Heading("Who stands behind it")
    if not source.signed and void:
        return title, Paragraph("Nobody has signed or ticked this file.")
    if not source.signed:
        return (
            title,
            Paragraph(
                "Nobody has signed or ticked this file. This does, for all sentences of a part or for some "
                "numbers; without a key the name is typed, and not signed:"
            ),
            Command('pabi sign guarantee.json --name "…" --role engineer --attest all --key FILE'),
        )
    rows = tuple(
        (f"{s.name}, {s.role}, {s.date}; attests {len(s.sentences)}", one.standing)
        for one in source.signed
        for s in (one.statement,)
    )
    first = next((one.key for one in source.signed if one.key), None)
    others = tuple(
        f"{s.name}, {s.role}: {sentence}"
        for s in (one.statement for one in source.signed)
        for sentence in s.sentences
        if sentence not in here[s.role]
    )
    return (
        title,
        Table(rows, ("who", "standing")),
        Paragraph(
            "A key shows who signed to those who know whose key it is. Name, role and date are what its "
            "owner wrote."
        ),
        *([Folded("attested, and not a sentence of this report", others)] if others else []),
        *([] if first is None else [Command(f"pabi verify guarantee.json --signer {first}")]),
    )


# What it takes.


def sizes_of(guarantee: Guarantee, verdict: Verdict) -> tuple[int, ...]:
    """The numbers of records in the descriptions of an accepted certificate, ascending."""
    if not verdict.ok or guarantee.certificate is None:
        return ()
    counts = (one.get("n") for one in tables_in(guarantee.certificate.payload))
    return tuple(sorted({n for n in counts if type(n) is int}))


def _metadata(
    guarantee: Guarantee, delta: float, verdict: Verdict
) -> tuple[tuple[str, str | float | bool | None], ...]:
    return (
        ("epsilon", float(shown(guarantee.epsilon(delta)))),
        ("delta", delta),
        ("mu", None if guarantee.mu is None else float(shown(guarantee.mu))),
        ("adjacency", guarantee.adjacency),
        ("unit", guarantee.unit),
        ("method", guarantee.method),
        ("verified", verdict.ok),
        *((("limits", "; ".join(limited)),) if (limited := limits(guarantee.assumptions)) else ()),
    )


# The guarantee that stands in a file, once the checker was asked.


def stated_in(text: str, verdict: Verdict) -> Guarantee | None:
    """The guarantee of a guarantee's or certificate's text, on which there is a verdict.

    None where its proof is refused. What has no proof is returned as it states itself.
    """
    data = parse_json(text)
    stands_alone = data["format"] != FORMAT
    if not verdict.ok and (stands_alone or data.get("certificate") is not None):
        return None
    return _of_certificate(data, verdict) if stands_alone else Guarantee.from_dict(data)


def _of_certificate(payload: dict[str, Any], verdict: Verdict) -> Guarantee:
    """The guarantee that an accepted certificate proves."""
    method, source = verdict.names[0]
    return Guarantee(
        TradeOff.from_dict(best_curve(verdict.bounds)),
        checked_adjacency(verdict.adjacency),
        method,
        source,
        verdict.assumptions,
        None if verdict.reading is None else verdict.reading[1],
        proof=Certificate.from_dict(payload),
    )
