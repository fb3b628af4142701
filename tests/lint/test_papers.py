"""Sources name theorems that are there, and papers of the one table, which docs and CITATION.cff share."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import pabi
import pabi.account.analyses
import pabi.verification.theorems
from pabi import literature
from pabi.show.papers import PAPERS, bibtex, cited
from pabi.tradeoff import Gaussian
from support.every_case import every

ROOT = Path(__file__).parent.parent.parent
THEORY = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs" / "theory").glob("*.md"))
DOCS = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("**/*.md"))
NUMBERED = r"(?:Theorems?|Thm|Cor\.|Lemma|Proposition|Definition) [A-Z]?\.?\d"
# A section, and the theorems in it: "docs, Theory, 6.3 (Theorems 54 and 55)".
PLACE = re.compile(
    r"docs, Theory, (\d+(?:\.\d+)?)(?:,? \(?(Theorem|Lemma|Proposition)s? ((?:\d+[a-z]?(?:, | and )?)+))?"
)


def sections():
    """The text of every numbered section, its subsections included, by its number."""
    found = {}
    for heading in re.finditer(r"^(#{1,2}) (\d+(?:\.\d+)?) .*$", THEORY, re.M):
        level, rest = len(heading[1]), THEORY[heading.end() :]
        end = re.search(rf"^#{{1,{level}}} ", rest, re.M)
        found[heading[2]] = rest[: end.start()] if end else rest
    return found


def texts(value):
    """The strings in a constant."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from texts(one)


def sources():
    """What analyses, the checker, budgets, selection and groups state as their sources."""
    names = ["pabi.tradeoff.guarantee", "pabi.tradeoff.selection", "pabi.budget.filters"]
    names += ["pabi.integrations.dp_accounting"]
    for package in (pabi.account.analyses, pabi.verification.theorems):
        inside = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        names += [module.name for module in inside]
    stated = set()
    for name in names:
        for constant, value in vars(importlib.import_module(name)).items():
            if constant.isupper() or constant.lstrip("_").isupper():
                stated |= {t for t in texts(value) if cites(t)}
    return stated


def cites(text):
    return "docs, " in text or text.startswith(tuple(paper.cited for paper in PAPERS))


def test_every_source_names_a_theorem_that_is_there():
    numbered, stated = sections(), sources()
    assert len(stated) > 20
    wrong = [f"{source}: no theorem" for source in stated if not re.search(NUMBERED, source)]
    for source in stated:
        for piece in source.split("; "):
            places = list(PLACE.finditer(piece))
            if len(places) != piece.count("docs, "):
                wrong.append(f"{piece}: no place in the theory")
            for section, kind, numbers in (place.groups() for place in places):
                for number in re.findall(r"\d+[a-z]?", numbers or "") or ["without a number"]:
                    here = rf"^> \*\*{kind} {number}\b"
                    if not re.search(here, numbered.get(section, ""), re.M):
                        wrong.append(f"{piece}: section {section} states no theorem {number}")
            _, _, others = cited(piece)
            if others and not piece.startswith("dp-accounting"):
                wrong.append(f"{piece}: a paper that is not in the table")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_published_bounds_are_of_papers_in_the_table():
    modules = [m.name for m in pkgutil.iter_modules(literature.__path__, "pabi.literature.")]
    bounds = [
        value
        for name in modules
        for value in vars(importlib.import_module(name)).values()
        if hasattr(value, "status") and hasattr(value, "source") and callable(value)
    ]
    assert len(bounds) > 40
    for bound in bounds:
        papers, _, others = cited(bound.source)
        assert papers, bound.source
        assert not others, bound.source


def test_docs_list_what_the_table_has():
    spaced = " ".join(DOCS.split()).lower()
    for paper in PAPERS:
        for identifier in filter(None, (paper.arxiv, paper.doi)):
            assert identifier.lower() in spaced, paper.cited
    for identifier in re.findall(r"arxiv\.org/abs/([\d.]+\d)|doi\.org/([^)\s]+)", DOCS):
        known = {paper.arxiv for paper in PAPERS} | {paper.doi for paper in PAPERS}
        assert identifier[0] in known or identifier[1] in known, identifier


def test_the_citation_file_agrees_with_the_table():
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    titles = {paper.title: paper for paper in PAPERS}
    references = text.partition("references:")[2].split("  - type: ")[1:]
    entries = [r for r in references if "title:" in r]
    assert len(entries) == 4
    for entry in entries:
        paper = titles[re.search(r'title: "(.*)"', entry)[1]]
        after = text[text.index(paper.title) :].split("\n  - type: ")[0]
        assert ("arXiv:" in after) == (paper.arxiv is not None)
        assert paper.arxiv is None or f'"arXiv:{paper.arxiv}"' in after


def entries(text):
    """BibTeX by key. Every entry ends where its braces do."""
    found = {}
    for entry in re.findall(r"^@\w+\{.*?^\}$", text, re.M | re.S):
        assert entry.count("{") == entry.count("}")
        found[re.match(r"@\w+\{([^,]+),", entry)[1]] = entry
    return found


def test_keys_are_distinct():
    assert len({paper.key for paper in PAPERS}) == len(PAPERS)
    assert all(re.fullmatch(r"[\w-]+", paper.key) for paper in PAPERS)


def test_a_guarantee_cites_what_stands_behind_it():
    run = pabi.NoisySGD(
        pabi.Loss.logistic(1.0),
        n=1_000,
        batches=pabi.Poisson(20),
        steps=20,
        step_size=0.1,
        noise_std=0.1,
        adjacency="zero_out",
    )
    hidden = pabi.NoisySGD(
        pabi.Loss.logistic(1.0, l2=0.1),
        n=1_000,
        batches=pabi.Cyclic(100),
        epochs=20,
        step_size=0.5,
        noise_std=0.1,
        adjacency="zero_out",
    ).guarantee()
    found = entries(hidden.cite())
    assert "eprint = {2403.00278}" in found["bok2024shifted"]
    assert "Thm C.3" in found["bok2024shifted"]
    assert "Theorem 57" in found["pabi"]
    stated = pabi.Guarantee.from_tradeoff(
        Gaussian(0.1), adjacency="zero_out", method="another", source="its makers"
    )
    both = pabi.compose(hidden, run.guarantee(), stated).cite()
    assert {"bok2024shifted", "dong2022gaussian", "pabi"} <= set(entries(both))
    assert "% not in pabi's table of papers: its makers" in both


@every("name", ["Kong, Ribero, ", "docs, "])
def test_what_stands_in_a_file_cannot_end_an_entry(name):
    text = bibtex(f"{name}x}}}}\n@misc{{other, note = {{\\input{{a}}}}}} 5% a_b")
    assert len(entries(text)) == 1
    assert "\\input" not in text
    assert "5\\% a\\_b" in text


@pytest.mark.parametrize("paper", PAPERS, ids=[paper.key for paper in PAPERS])
def test_entries_are_complete(paper):
    [entry] = entries(paper.bibtex("Theorem 1")).values()
    assert all(f"  {name} = {{" in entry for name in ("author", "title", "note"))
    assert (paper.arxiv is None) == ("eprint" not in entry)
    assert (paper.doi is None) == ("doi" not in entry)
