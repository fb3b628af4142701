"""Sentences that differ in one number are told once, and no number is lost."""

from __future__ import annotations

from pabi.show.report import folded


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
