"""A crash loses little, leaks nothing, and changes nothing of what is released."""

import io
import itertools
import math
import os
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.describe.losses import Loss
from pabi.describe.runs import NoisySGD
from pabi.execute import checkpoint as checkpoint_module
from pabi.execute.checkpoint import Checkpoint, State
from pabi.execute.engine import CLIPS_ITSELF, RESUMED
from pabi.learn import train
from pabi.numbers.errors import InvalidInput, PrivacyWarning
from pabi.tradeoff.guarantee import TESTING
from support.every_case import every, refused
from support.execution import Crash, frames_of, held, spoil

CENTRES = np.linspace(-1.0, 2.0, 7)[:, None]


def run_of(**changes):
    """Seven records in batches of three, three and one; four epochs."""
    given = {"n": 7, "batches": pabi.ShuffleOnce(3), "epochs": 4, "step_size": 0.3}
    given |= {"noise_std": 1.0, "gradient_sensitivity": 1.0}
    given.update(changes)
    return NoisySGD(given.pop("loss", Loss.convex(smoothness=1.0)), **given)


def clipped_run(batches):
    return run_of(batches=batches, gradient_sensitivity=None, clip_norm=9.0)


class Records:
    """Gradients x − a_i that note which rows were asked for, and crash on the given call (0-based)."""

    def __init__(self, crash_at=None):
        self.calls = []
        self._crash_at = crash_at

    def __call__(self, x, rows):
        if len(self.calls) == self._crash_at:
            raise Crash
        self.calls.append(rows.tolist())
        return x - CENTRES[rows]


def interrupted(run, path, at, **others):
    """The gradients of a training that crashed in step `at` (0-based), after writing every step."""
    gradients = Records(crash_at=at)
    with pytest.raises(Crash):
        train(run, gradients, [0.5], checkpoint=path, **{"checkpoint_seconds": 0.0, **others})
    return gradients


@every("at", range(1, 12))
def test_a_crash_at_any_step_keeps_all_steps_before(unpriced, monkeypatch, tmp_path, capfd, at):
    """In a file of a relative name, and without a word."""
    monkeypatch.chdir(tmp_path)
    run, rest = run_of(), Records()
    interrupted(run, "run.ckpt", 0)
    assert list(tmp_path.iterdir()) == []
    interrupted(run, "run.ckpt", at)
    assert int(held("run.ckpt")["step"]) == at
    assert train(run, rest, [0.5], resume="run.ckpt").x.shape == (1,)
    assert len(rest.calls) == 12 - at
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@every(("seconds", "lost"), [(0.0, 0), (1.0, 0), (3.0, 2), (5.0, 4), (100.0, 9)])
def test_at_most_the_stated_seconds_are_lost(unpriced, monkeypatch, tmp_path, seconds, lost):
    """A clock on which a step takes one second: after nine steps the file is `lost` steps old or less."""
    clock = [0.0]
    monkeypatch.setattr(checkpoint_module.time, "monotonic", lambda: clock[0])

    class Slow(Records):
        def __call__(self, x, rows):
            clock[0] += 1.0
            return super().__call__(x, rows)

    path = tmp_path / f"{seconds}.ckpt"
    with pytest.raises(Crash):
        train(run_of(), Slow(9), [0.5], checkpoint=path, checkpoint_seconds=seconds)
    step = int(held(path)["step"]) if path.exists() else 0
    assert 9 - lost <= step <= 9
    assert (step == 0) == (seconds == 100.0)


@every(
    "batches",
    [
        *(pabi.ShuffleOnce(3), pabi.ShuffleOnce(1), pabi.Reshuffle(3), pabi.Cyclic(3)),
        *(pabi.ShuffleOnce(2, 2), pabi.Reshuffle(2, 1)),
        *(pabi.BallsInBins(2), pabi.BallsInBins(2, redraw="epoch")),
    ],
)
@every("at", [1, 2, 3, 4, 6, 8])
def test_every_record_is_used_once_an_epoch_across_the_crash(unpriced, tmp_path, batches, at):
    """With one stream of noise for both parts the end is that of the uninterrupted run."""
    run, path, after = run_of(batches=batches), tmp_path / "run.ckpt", Records()
    stream = np.random.default_rng(1)
    before = interrupted(run, path, at, random_state=stream).calls
    end = train(run, after, [0.5], stream, resume=path).x
    rows, each = [*itertools.chain(*before, *after.calls)], 7 - getattr(batches, "spare", 0)
    epochs = [rows[first : first + each] for first in range(0, len(rows), each)]
    assert [len(set(epoch)) for epoch in epochs] == [each] * 4
    anew = batches.kind == "reshuffle" or getattr(batches, "redraw", "once") == "epoch"
    assert anew or all(epoch == epochs[0] for epoch in epochs)
    whole = train(run, Records(), [0.5], np.random.default_rng(1)).x
    drawn_twice = anew and at % run.steps_per_epoch == 0  # the order of the next epoch
    assert drawn_twice or np.array_equal(end, whole)


def test_two_crashes_in_a_row(unpriced, tmp_path):
    """The file that is resumed is kept up to date, or another one from there on."""
    run, path = run_of(), tmp_path / "run.ckpt"
    interrupted(run, path, 2)
    with pytest.raises(Crash):
        train(run, Records(3), [0.5], resume=path, checkpoint_seconds=0.0)
    assert int(held(path)["step"]) == 5
    other = tmp_path / "other.ckpt"
    other.write_text("somebody's work")
    both = {"resume": path, "checkpoint": other}
    assert "exists" in refused("checkpoint", train, run, Records(), [0.5], **both)
    both["checkpoint"] = tmp_path / "nowhere" / "run.ckpt"
    assert "No such" in refused("checkpoint", train, run, Records(), [0.5], **both)
    both["checkpoint"] = other
    other.unlink()
    for seconds in (-1.0, math.nan, "60"):
        refused(
            "checkpoint_seconds", train, run, Records(), [0.5], **both, checkpoint_seconds=seconds
        )
    with pytest.raises(Crash):
        train(run, Records(3), [0.5], **both, checkpoint_seconds=0.0)
    assert int(held(path)["step"]) == 5
    assert int(held(other)["step"]) == 8
    last = Records()
    train(run, last, [0.5], resume=other)
    assert len(last.calls) == 4
    train(run, Records(), [0.5], resume=path, checkpoint=other)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["open", "fsync", "replace"])
def test_a_full_disk_is_told_in_one_line_and_keeps_the_file(unpriced, monkeypatch, tmp_path, name):
    """The message names the file; the frames of the error hold no iterate."""
    run, path = run_of(), tmp_path / "run.ckpt"
    interrupted(run, path, 4)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_module.os, name, full)
    with pytest.raises(InvalidInput, match=f"^checkpoint: [^\n]*{path.name}.*No space") as caught:
        train(run, Records(), [0.5], resume=path, checkpoint_seconds=0.0)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    outside = ("train", "train_and_keep", sys._getframe().f_code.co_name)
    frames = [f for f in frames_of(caught.value) if f.f_code.co_name not in outside]
    kept = [value for frame in frames for value in frame.f_locals.values()]
    assert not any(isinstance(value, (np.ndarray, State, io.BytesIO)) for value in kept)


DRAWN = pabi.ShuffleOnce, pabi.Reshuffle, pabi.BallsInBins
AFRESH = pabi.BallsInBins(3, redraw="epoch")


@every(
    "batches", [AFRESH, *(kind(3) for kind in (*DRAWN, pabi.Cyclic, pabi.Poisson, pabi.FixedSize))]
)
def test_it_holds_the_iterate_and_the_order_and_no_generator(
    unpriced, monkeypatch, tmp_path, batches
):
    """Neither the key nor anything of its size: what could predict a draw. Every start has its own."""
    keys, path, urandom = [], tmp_path / "run.ckpt", os.urandom
    monkeypatch.setattr("os.urandom", lambda n: keys.append(urandom(n)) or keys[-1])
    run = clipped_run(batches)
    interrupted(run, path, 1)
    content, data = held(path), path.read_bytes()
    order = {"order"} if isinstance(batches, DRAWN) else set()
    assert set(content) == {"assumed", "format", "run", "start", "step", "x"} | order
    assert content["x"].shape == (1,)
    (key,) = [k for k in keys if len(k) == 32]
    assert not any(piece in data for piece in (key[:8], key[8:16], key[16:24], key[24:], key[::-1]))
    ends = []
    for _ in range(2):
        path.write_bytes(data)
        ends.append(train(run, Records(), [0.5], resume=path).x.item())
    assert ends[0] != ends[1]
    assert len({k for k in keys if len(k) == 32}) == 3


OTHERS = [
    *({"noise_std": 1.1}, {"step_size": 0.31}, {"step_size": np.full(12, 0.3)}, {"epochs": 5}),
    *({"batches": b} for b in (pabi.ShuffleOnce(2), pabi.Reshuffle(3), pabi.BallsInBins(3))),
    *({"n": 8}, {"cooldown_steps": 1}, {"adjacency": "zero_out"}, {"release": "path"}),
    {"gradient_sensitivity": None, "clip_norm": 0.5},
    {"loss": Loss.convex(smoothness=1.0, l2=0.1)},
]
SCHEMES = [
    *(pabi.Poisson(3, cap=4), pabi.Poisson(3, cap=5), pabi.Poisson(3), pabi.FixedSize(3)),
    *(pabi.BallsInBins(3), pabi.BallsInBins(3, 7), pabi.BallsInBins(4)),
]


def test_the_file_of_another_run_is_refused(unpriced, tmp_path):
    path, refusal = tmp_path / "run.ckpt", r"^resume: [^\n]* belongs to another run$"
    interrupted(run_of(), path, 2)
    for changes in OTHERS:
        with pytest.raises(InvalidInput, match=refusal):
            train(run_of(**changes), Records(), [0.5], resume=path)
    with pytest.raises(InvalidInput, match=refusal):
        train(run_of(), Records(), [0.5, 0.5], resume=path)
    for one, other in itertools.permutations(map(clipped_run, SCHEMES), 2):
        secret = np.zeros(7, int) if isinstance(one.batches, pabi.BallsInBins) else None
        Checkpoint(path, one, np.array([0.5]), 0.0).write(State(2, np.zeros(1), secret))
        assert Checkpoint(path, one, np.array([0.5]), 0.0).read().step == 2
        with pytest.raises(InvalidInput, match=refusal):
            train(other, Records(), [0.5], resume=path)


@every(
    "content",
    [
        *(b"", b"not a checkpoint", b"PK\x03\x04" + bytes(50), b"\x93NUMPY\x01\x00"),
        {"format": None, "run": None, "step": None, "start": None, "assumed": None, "order": None},
        *({"format": "pabi.checkpoint.0"}, {"step": "one"}, {"step": [1, 2]}),
        *({"x": np.array(["a"])}, {"x": np.array([{}], dtype=object)}),
        *({"step": np.inf}, {"step": 3.7}, {"x": np.zeros(1, complex)}, {"x": np.array([np.nan])}),
    ],
)
def test_what_is_no_checkpoint_is_refused_in_one_line(unpriced, tmp_path, content):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, run_of(), np.array([0.5]), 0.0).write(State(2, np.zeros(1), np.arange(7)))
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        spoil(path, **content)
    written = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"^resume: [^\n]*run\.ckpt[^\n]*$"):
        train(run_of(), Records(), [0.5], resume=path)
    assert path.read_bytes() == written


@every(
    "step, x, secret",
    [
        *((step, 0.0, np.arange(7)) for step in (-1, 13)),
        (2, np.nan, np.arange(7)),
        *((2, 0.0, s) for s in (np.arange(6), np.zeros(7, int), np.arange(7.0), None)),
    ],
)
def test_a_state_that_no_run_can_be_in_is_refused(unpriced, tmp_path, step, x, secret):
    """It would be released without its noise, or use a record twice."""
    path = tmp_path / "run.ckpt"
    Checkpoint(path, run_of(), np.array([0.5]), 0.0).write(State(step, np.full(1, x), secret))
    refused("resume", train, run_of(), Records(), [0.5], resume=path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path, problem in ((tmp_path / "none.ckpt", "cannot read"), (tmp_path, "got a folder")):
        with pytest.raises(InvalidInput, match=rf"^[^\n]* {problem}[^\n]*$"):
            Checkpoint(path, run_of(), np.array([0.5]), 0.0).read()


def test_a_link_leaves_no_iterate_behind_and_a_second_name_is_refused(unpriced, tmp_path):
    """The link had been replaced by a file, and an earlier iterate was still where it led to."""
    real, link = tmp_path / "real.ckpt", tmp_path / "link.ckpt"
    link.symlink_to(real.name)
    interrupted(run_of(), link, 2)
    assert (link.is_symlink(), int(held(real)["step"])) == (True, 2)
    other = tmp_path / "hard.ckpt"
    other.hardlink_to(real)
    with pytest.raises(InvalidInput, match=r"^[^\n]*a file of one name, got one of 2[^\n]*$"):
        train(run_of(), Records(), [0.5], resume=real)
    other.unlink()
    train(run_of(), Records(), [0.5], resume=link, checkpoint_seconds=0.0)
    assert list(tmp_path.iterdir()) == [link]


def test_progress_shows_steps_and_time_and_nothing_else(unpriced, tmp_path, capfd):
    """Whatever the data, the seed and the batches, and where a run goes on: a bar, steps and two times."""

    def shown(run, scale=1.0, seed=None, **files):
        capfd.readouterr()
        train(run, lambda x, r: scale * (x - CENTRES[r]), [0.5], seed, progress=True, **files)
        out, text = capfd.readouterr()
        assert out == ""
        text = re.sub(r"\d+:\d\d:\d\d|-:--:--", "TIME", text)
        words = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).split()
        return text, {word for word in words if not set(word) <= set("━╸╺")}

    path, sparse = tmp_path / "run.ckpt", clipped_run(pabi.Poisson(1, cap=1))
    sparse = replace(sparse, epochs=None, total_steps=12)
    interrupted(run_of(), path, 5)
    runs = [shown(run_of(), scale, seed) for scale, seed in ((1.0, 0), (0.1, 1), (-1e6, 2))]
    assert len({text for text, _ in runs}) == 1
    for _, words in (
        *runs,
        shown(run_of(), resume=path),
        shown(replace(sparse, epochs=None, total_steps=12)),
    ):
        assert words == {"training", "12/12", "TIME"}
    assert "15/15" in shown(run_of(epochs=5))[1]


def test_a_hidden_path_may_not_be_watched(unpriced):
    touched = Records()
    refused("watch", train, run_of(), touched, [0.5], watch=lambda step, x: None)
    assert touched.calls == []


def test_a_released_path_is_watched_at_the_price_of_composition():
    """Every step as it happens, on copies; the guarantee is the one of composition, and dearer."""
    run = run_of(loss=Loss.logistic(1.0), batches=pabi.Cyclic(3), noise_std=2.0)
    run = replace(run, gradient_sensitivity=None)
    released, seen = replace(run, release="path"), []

    def watch(step, x):
        seen.append((step, x.copy()))
        x[:] = 1e9

    still = lambda x, rows: np.zeros((len(rows), 1))  # noqa: E731
    with pytest.warns(PrivacyWarning, match="testing only"):
        result = train(released, still, [0.5], 0, watch=watch, delta=1e-2)
    assert [step for step, _ in seen] == list(range(1, 13))
    assert np.array_equal(seen[-1][1], result.x)
    assert abs(result.x.item()) < 1e3
    g = result.guarantee
    assert g.method == "composition"
    # Four uses of a record, each a Gaussian release of sensitivity 2 over 3 · 2.
    assert g.mu == pytest.approx(math.sqrt(4.0) * 2.0 / 6.0, rel=1e-12)
    assert not any("stays hidden" in sentence for sentence in g.assumptions)
    assert g.mu > run.guarantee(1e-2).mu


def test_a_resumed_run_remembers_that_it_was_seeded(tmp_path):
    """The attack: noise before the interruption can be drawn again, and the certificate verified."""
    run, path = run_of(), tmp_path / "run.ckpt"
    with pytest.warns(PrivacyWarning, match="testing only"):
        interrupted(run, path, 5, random_state=0)
    with pytest.raises(Crash):
        train(run, Records(crash_at=2), [0.5], resume=path, checkpoint_seconds=0.0)
    result = train(run, Records(), [0.5], resume=path)
    assert result.guarantee.assumptions[0] == TESTING
    assert result.guarantee.certificate is None
    assert not pabi.verify(result.guarantee).ok


def test_a_checkpoint_that_another_process_writes_is_the_one_that_was_read_before(
    tmp_path, monkeypatch
):
    """The attack: what is assumed is read of one state, and training goes on from a seeded one."""
    run, path, other = run_of(), tmp_path / "run.ckpt", tmp_path / "other.ckpt"
    interrupted(run, path, 5)
    with pytest.warns(PrivacyWarning, match="testing only"):
        interrupted(run, other, 5, random_state=0)
    assumed = Checkpoint.assumed

    def and_then(checkpoint):
        sentences = assumed(checkpoint)
        os.replace(other, path)
        return sentences

    monkeypatch.setattr(Checkpoint, "assumed", and_then)
    with pytest.raises(InvalidInput, match="resume: .* another process has written it"):
        train(run, Records(), [0.5], resume=path)


def test_a_resumed_run_remembers_who_clipped(tmp_path):
    run, path = run_of(gradient_sensitivity=None, clip_norm=1.0), tmp_path / "run.ckpt"
    gradients, keep = Records(crash_at=5), {"checkpoint": path, "checkpoint_seconds": 0.0}
    summed = {"clipped_gradient_sum": lambda x, rows, clip_norm: gradients(x, rows).sum(axis=0)}
    with pytest.raises(Crash):
        train(run, None, [0.5], **summed, **keep)
    guarantee = train(run, Records(), [0.5], resume=path).guarantee
    assert {CLIPS_ITSELF, RESUMED} <= set(guarantee.assumptions)
    assert not {CLIPS_ITSELF, RESUMED} & set(train(run, Records(), [0.5]).guarantee.assumptions)


def test_a_file_of_before_assumptions_were_kept_is_refused(unpriced, tmp_path):
    """Nobody knows whether its noise was reproducible."""
    path = tmp_path / "run.ckpt"
    interrupted(run_of(), path, 5)
    spoil(path, format="pabi.checkpoint.1", assumed=None)
    with pytest.raises(InvalidInput, match=r"^resume: [^\n]*start over$"):
        train(run_of(), Records(), [0.5], resume=path)
    assert path.exists()


def test_a_run_is_resumed_from_its_own_start_only(tmp_path):
    """The attack: begun where doubles are coarse, which composition allows, and resumed as if from 0."""
    run, path = run_of(gradient_sensitivity=None, clip_norm=1.0), tmp_path / "run.ckpt"
    shown, far = replace(run, release="path"), [2.0**52 + 2.0**40]
    with pytest.raises(Crash):
        train(shown, Records(5), far, checkpoint=path, checkpoint_seconds=0.0)
    for start in ([0.0], [0.5], [np.nextafter(far[0], 0.0)]):
        assert "expected the start" in refused("x0", train, shown, Records(), start, resume=path)
    with pytest.raises(InvalidInput, match=r"^(resume|x0): "):
        train(run, Records(), [0.0], resume=path)
    assert train(shown, Records(), far, resume=path).x.shape == (1,)


@pytest.mark.parametrize("where", ["gradients", "watch"])
def test_no_step_is_watched_twice(tmp_path, where):
    """The attack: steps after the last checkpoint were shown, taken again, and shown again."""
    run, path, shown = run_of(release="path"), tmp_path / "run.ckpt", []

    def watch(step, x):
        shown.append(step)
        if where == "watch" and len(shown) % 3 == 0:
            raise Crash

    for _ in range(20):
        gradients = Records(3 if where == "gradients" else None)
        files = {"resume": path} if path.exists() else {"checkpoint": path}
        try:
            train(run, gradients, [0.5], watch=watch, checkpoint_seconds=1e9, **files)
            break
        except Crash:
            continue
    assert shown == sorted(set(shown))
    assert shown[-1] == run.steps
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("spoilt", ["assumed", "start", "run", "order"])
def test_a_refused_file_shows_no_state(tmp_path, spoilt):
    """Whoever sees the traceback of a resumption that is refused would see an iterate and the order."""
    path = tmp_path / "run.ckpt"
    interrupted(run_of(), path, 5)
    content = held(path)
    iterate = content["x"].item()
    null = spoilt in ("assumed", "run")
    spoil(path, **{spoilt: "null" if null else content[spoilt][::-1] + 1})
    with pytest.raises(InvalidInput) as caught:
        train(run_of(), Records(), [0.5], resume=path)
    frames = frames_of(caught.value)
    kept = [v for f in frames if f is not sys._getframe() for v in f.f_locals.values()]
    arrays = [v for v in kept if isinstance(v, np.ndarray)]
    assert all(v.shape == (1,) and v.item() == 0.5 != iterate for v in arrays)
    assert not any(isinstance(v, State) for v in kept)
