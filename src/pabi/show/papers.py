"""The papers that guarantees, published bounds and errata rest on, by the names under which they are cited.

A DOI or an arXiv identifier is left out where none is known to us.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from pabi.numbers.version import __version__


class Paper(NamedTuple):
    """A paper. `cited`: how sources begin that name it. `authors`: initials and names."""

    cited: str
    authors: str
    title: str
    year: int | None = None
    arxiv: str | None = None
    doi: str | None = None

    @property
    def key(self) -> str:
        """The key of its entry, such as bok2024shifted."""
        title = [word for word in re.findall(r"\w+", self.title) if word not in _ARTICLES]
        first = self.cited.split(",")[0].split()[-1]
        return f"{first}{self.year or ''}{title[0]}".lower()

    def bibtex(self, theorems: str) -> str:
        """Its entry, which notes what is used of it."""
        rows = {
            "author": " and ".join(self.authors.split(", ")),
            "title": f"{{{self.title}}}",
            "year": self.year,
            "eprint": self.arxiv,
            "archivePrefix": "arXiv" if self.arxiv else None,
            "doi": self.doi,
            "note": _text(theorems) or None,
        }
        return _entry("misc", self.key, rows)


_ARTICLES = frozenset({"A", "The", "On"})

PAPERS = (
    Paper(
        "Altschuler, Talwar 2022",
        "J. M. Altschuler, K. Talwar",
        "Privacy of Noisy Stochastic Gradient Descent: More Iterations without More Privacy Loss",
        2022,
        arxiv="2205.13710",
    ),
    Paper(
        "Altschuler, Talwar 2023",
        "J. M. Altschuler, K. Talwar",
        "Resolving the Mixing Time of the Langevin Algorithm to its Stationary Distribution for "
        "Log-Concave Sampling",
        2023,
        arxiv="2210.08448",
    ),
    Paper(
        "Asoodeh, Diaz 2023",
        "S. Asoodeh, M. Diaz",
        "Privacy Loss of Noisy Stochastic Gradient Descent Might Converge Even for Non-Convex Losses",
        2023,
        arxiv="2305.09903",
    ),
    Paper(
        "Asoodeh, Liao, Calmon, Kosut, Sankar 2021",
        "S. Asoodeh, J. Liao, F. Calmon, O. Kosut, L. Sankar",
        "Three Variants of Differential Privacy: Lossless Conversion and Applications",
        2021,
        doi="10.1109/JSAIT.2021.3054692",
    ),
    Paper(
        "Balle, Barthe, Gaboardi 2018",
        "B. Balle, G. Barthe, M. Gaboardi",
        "Privacy Amplification by Subsampling",
        2018,
        arxiv="1807.01647",
    ),
    Paper(
        "Balle, Barthe, Gaboardi, Geumlek 2019",
        "B. Balle, G. Barthe, M. Gaboardi, J. Geumlek",
        "Privacy Amplification by Mixing and Diffusion Mechanisms",
        2019,
        arxiv="1905.12264",
    ),
    Paper(
        "Balle, Barthe, Gaboardi, Hsu, Sato 2020",
        "B. Balle, G. Barthe, M. Gaboardi, J. Hsu, T. Sato",
        "Hypothesis Testing Interpretations and Rényi Differential Privacy",
        2020,
        arxiv="1905.09982",
    ),
    Paper(
        "Bok, Su, Altschuler 2024",
        "J. Bok, W. Su, J. M. Altschuler",
        "Shifted Interpolation for Differential Privacy",
        2024,
        arxiv="2403.00278",
    ),
    Paper(
        "Bravo, Flores-Mella, Guzmán",
        "M. Bravo, J. P. Flores-Mella, C. Guzmán",
        "Mixing Times and Privacy Analysis for the Projected Langevin Algorithm under a Modulus of "
        "Continuity",
        2025,
        arxiv="2501.04134",
    ),
    Paper(
        "Bun, Steinke 2016",
        "M. Bun, T. Steinke",
        "Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds",
        2016,
        arxiv="1605.02065",
    ),
    Paper(
        "Chien, Li 2024",
        "E. Chien, P. Li",
        "Convergent Privacy Loss of Noisy-SGD without Convexity and Smoothness",
        2024,
        arxiv="2410.01068",
    ),
    Paper(
        "Chien, Wang, Chen, Li 2024",
        "E. Chien, H. Wang, Z. Chen, P. Li",
        "Certified Machine Unlearning via Noisy Stochastic Gradient Descent",
        2024,
        arxiv="2403.17105",
    ),
    Paper(
        "Chourasia, Ye, Shokri 2021",
        "R. Chourasia, J. Ye, R. Shokri",
        "Differential Privacy Dynamics of Langevin Diffusion and Noisy Gradient Descent",
        2021,
        arxiv="2102.05855",
    ),
    Paper(
        "Chua, Ghazi, Harrison, Leeman, Kamath, Kumar, Manurangsi, Sinha, Zhang 2025",
        "L. Chua, B. Ghazi, C. Harrison, E. Leeman, P. Kamath, R. Kumar, P. Manurangsi, A. Sinha, C. Zhang",
        "Balls-and-Bins Sampling for DP-SGD",
        2025,
        arxiv="2412.16802",
    ),
    Paper(
        "Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024",
        "L. Chua, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi, A. Sinha, C. Zhang",
        "How Private are DP-SGD Implementations?",
        2024,
        arxiv="2403.17673",
    ),
    Paper(
        "Dong, Durfee, Rogers 2020",
        "J. Dong, D. Durfee, R. Rogers",
        "Optimal Differential Privacy Composition for Exponential Mechanisms",
        2020,
        arxiv="1909.13830",
    ),
    Paper(
        "Dong, Roth, Su 2022",
        "J. Dong, A. Roth, W. Su",
        "Gaussian Differential Privacy",
        2022,
        arxiv="1905.02383",
        doi="10.1111/rssb.12454",
    ),
    Paper(
        "Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022",
        "V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar, P. Manurangsi",
        "Connect the Dots: Tighter Discrete Approximations of Privacy Loss Distributions",
        2022,
        arxiv="2207.04380",
    ),
    Paper(
        "Feldman, McMillan, Talwar 2021",
        "V. Feldman, A. McMillan, K. Talwar",
        "Hiding Among the Clones",
        2021,
        arxiv="2012.12803",
    ),
    Paper(
        "Feldman, Mironov, Talwar, Thakurta 2018",
        "V. Feldman, I. Mironov, K. Talwar, A. Thakurta",
        "Privacy Amplification by Iteration",
        2018,
        arxiv="1808.06651",
    ),
    Paper(
        "Feldman, Zrnic 2021",
        "V. Feldman, T. Zrnic",
        "Individual Privacy Accounting via a Rényi Filter",
        2021,
        arxiv="2008.11193",
    ),
    Paper(
        "Ganesh, Thakurta, Upadhyay",
        "A. Ganesh, A. Thakurta, J. Upadhyay",
        "On the Universality of Langevin Diffusion for Private Euclidean (Convex) Optimization",
    ),
    Paper(
        "Haney, Shoemate, Tian, Vadhan, Vyrros, Xu, Zhang 2023",
        "S. Haney, M. Shoemate, G. Tian, S. Vadhan, A. Vyrros, V. Xu, W. Zhang",
        "Concurrent Composition for Interactive Differential Privacy with Adaptive Privacy-Loss Parameters",
        2023,
        arxiv="2309.05901",
    ),
    Paper(
        "Kong, Ribero",
        "W. Kong, M. Ribero",
        "Privacy of the Last Iterate in Cyclically-Sampled DP-SGD on Nonconvex Composite Losses",
        2024,
        arxiv="2407.05237",
    ),
    Paper(
        "Koskela, Redberg, Wang 2024",
        "A. Koskela, R. Redberg, Y.-X. Wang",
        "Privacy Profiles for Private Selection",
        2024,
        arxiv="2402.06701",
    ),
    Paper(
        "Liu, Talwar 2019",
        "J. Liu, K. Talwar",
        "Private Selection from Private Candidates",
        2019,
        arxiv="1811.07971",
    ),
    Paper(
        "McSherry, Talwar 2007",
        "F. McSherry, K. Talwar",
        "Mechanism Design via Differential Privacy",
        2007,
        doi="10.1109/FOCS.2007.66",
    ),
    Paper(
        "Papernot, Steinke 2022",
        "N. Papernot, T. Steinke",
        "Hyperparameter Tuning with Renyi Differential Privacy",
        2022,
        arxiv="2110.03620",
    ),
    Paper(
        "Rogers, Roth, Ullman, Vadhan 2016",
        "R. Rogers, A. Roth, J. Ullman, S. Vadhan",
        "Privacy Odometers and Filters: Pay-as-you-Go Composition",
        2016,
        arxiv="1605.08294",
    ),
    Paper(
        "Smith, Thakurta 2022",
        "A. Smith, A. Thakurta",
        "Fully Adaptive Composition for Gaussian Differential Privacy",
        2022,
        arxiv="2210.17520",
    ),
    Paper(
        "Steinke, Nasr, Jagielski 2023",
        "T. Steinke, M. Nasr, M. Jagielski",
        "Privacy Auditing with One (1) Training Run",
        2023,
        arxiv="2305.08846",
    ),
    Paper(
        "Tanaka 1979",
        "H. Tanaka",
        "Stochastic Differential Equations with Reflecting Boundary Condition in Convex Regions",
        1979,
        doi="10.32917/hmj/1206135203",
    ),
    Paper(
        "Ye, Shokri 2022",
        "J. Ye, R. Shokri",
        "Differentially Private Learning Needs Hidden State (Or Much Faster Convergence)",
        2022,
        arxiv="2203.05363",
    ),
    Paper(
        "Zhu, Dong, Wang 2022",
        "Y. Zhu, J. Dong, Y.-X. Wang",
        "Optimal Accounting of Differential Privacy via Characteristic Function",
        2022,
        arxiv="2106.08567",
    ),
)


def cited(source: str) -> tuple[dict[Paper, list[str]], list[str], list[str]]:
    """What a source names: papers with their theorems, places of pabi's own theory, and what is neither."""
    papers: dict[Paper, list[str]] = {}
    own: list[str] = []
    others: list[str] = []
    for piece in dict.fromkeys(source.split("; ")):
        paper = next((one for one in PAPERS if piece.startswith(one.cited)), None)
        place = piece[piece.index("docs, ") :] if "docs, " in piece else None
        if paper is not None:
            theorem = piece.removeprefix(paper.cited).removeprefix(", ").partition(" (docs, ")[0]
            theorems = papers.setdefault(paper, [])
            theorems += [theorem] if theorem else []
        if place is not None:
            own.append(place.removesuffix(")") if paper is not None else place)
        if paper is None and place is None:
            others.append(piece)
    return papers, own, others


_TITLE = (
    "pabi: the tightest provable privacy guarantee for a model of which only the last iterate is "
    "released"
)


def bibtex(source: str) -> str:
    """BibTeX of all that a source names; what is not in the table is a comment."""
    papers, own, others = cited(source)
    entries = [paper.bibtex("; ".join(theorems)) for paper, theorems in papers.items()]
    if own:
        rows = {
            "author": "{The pabi authors}",
            "title": "{" + _TITLE + "}",
            "version": __version__,
            "note": _text("; ".join(dict.fromkeys(own))),
        }
        entries.append(_entry("software", "pabi", rows))
    entries += [f"% not in pabi's table of papers: {' '.join(piece.split())}" for piece in others]
    return "\n\n".join(entries) + "\n"


def _text(text: str) -> str:
    """As LaTeX reads it; a source may be anything that stands in a file."""
    return re.sub(r"([_%&#$])", r"\\\1", re.sub(r"[{}\\~^\s]+", " ", text)).strip()


def _entry(kind: str, key: str, rows: Mapping[str, str | int | None]) -> str:
    lines = (f"  {name} = {{{value}}}," for name, value in rows.items() if value is not None)
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
