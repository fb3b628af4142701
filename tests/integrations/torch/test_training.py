"""Gradients of any module are those of PyTorch one by one, and products on a device those of the host."""

import stat
from dataclasses import replace

import numpy as np
import pytest

import pabi
from pabi.execute.engine import RESUMED
from pabi.execute.linear_gradients import (
    LogisticGradients,
    LossGradients,
    SoftmaxGradients,
    SquaredGradients,
)
from pabi.execute.sums import Limit
from pabi.integrations.torch import library
from pabi.integrations.torch.library import DeviceRecords, multiplies
from pabi.learn import Records
from support.every_case import every, refused
from support.frameworks import framework
from support.modules import D, K, Listed, N, linear, pairs, run, table

torch = framework("torch")
from pabi.integrations import torch as integration  # noqa: E402
from pabi.integrations.torch import head_training, training  # noqa: E402
from pabi.integrations.torch.datasets import SAME, Pairs  # noqa: E402
from pabi.integrations.torch.training import ModuleGradients  # noqa: E402

X, CLASSES = table()
LOSS = torch.nn.CrossEntropyLoss()
UNKNOWN = {"clip_norm": 0.5, "batches": pabi.Poisson(16)}


def network(dtype=torch.float64, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Linear(D, 7), torch.nn.Tanh(), torch.nn.LayerNorm(7), torch.nn.Linear(7, K)
        ).to(dtype)


def gradients(module, chunk=None, data=(X, CLASSES), loss=LOSS):
    return ModuleGradients(module, loss, Pairs(pairs(*data)), chunk=chunk)


def one_by_one(module, rows):
    """By a backward pass for each record."""
    found = []
    for i in rows:
        module.zero_grad()
        LOSS(module(torch.as_tensor(X[[i]])), torch.as_tensor(CLASSES[[i]])).backward()
        parts = [p.grad.numpy().ravel() for p in module.parameters() if p.requires_grad]
        found.append(np.concatenate(parts))
    return np.array(found)


@every("chunk", [1, 4, 64, None])
@every("frozen", [False, True])
def test_gradients_are_those_of_a_backward_pass_each(chunk, frozen):
    module = network()
    module[0].weight.requires_grad_(not frozen)
    adapter = gradients(module, chunk)
    rows = np.array([5, 0, 3, 59, 7])
    np.testing.assert_allclose(adapter(adapter.start, rows), one_by_one(module, rows), atol=1e-12)
    assert adapter(adapter.start, rows[:0]).shape == (0, len(adapter.start))


def test_the_last_bit_does_not_depend_on_other_records_or_on_their_number():
    """Single precision, in which kernels for one row and for many round differently."""
    adapter = gradients(network(torch.float32), data=(X.astype(np.float32), CLASSES))
    alone = adapter(adapter.start, np.array([9]))
    among = adapter(adapter.start, np.array([3, 9, *range(20, 58)]))
    assert np.array_equal(alone[0], among[1])


def test_a_gradient_that_is_not_finite_is_zero_and_nobody_elses_changes():
    spoilt = X.copy()
    spoilt[4] = np.inf
    module = network()
    adapter = gradients(module, data=(spoilt, CLASSES))
    values = adapter(adapter.start, np.array([3, 4, 5]))
    assert not values[1].any()
    np.testing.assert_allclose(values[[0, 2]], one_by_one(module, [3, 5]), atol=1e-12)


def test_pytorch_does_not_stop_at_a_gradient_that_is_not_finite():
    """The search for anomalies raises an error at the first one."""
    spoilt = X.copy()
    spoilt[4] = np.nan
    adapter = gradients(network(), data=(spoilt, CLASSES))
    with torch.autograd.set_detect_anomaly(True):
        assert not adapter(adapter.start, np.array([4])).any()
        assert torch.is_anomaly_enabled()


def refusal(module, targets=CLASSES):
    described = run(pabi.Loss.unknown(), **UNKNOWN)
    with pytest.raises(pabi.InvalidInput) as caught:
        integration.train(module, pairs(X, targets), described, loss=LOSS)
    return caught.value


def test_an_error_shows_nothing_of_a_record():
    error = refusal(network(), np.full_like(CLASSES, 77_123))
    assert "77" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


# Training.


def by_hand(described, module, seed):
    """Clipped sums of gradients by backward passes, in the loop of `pabi.learn.train`."""
    adapter = gradients(module)

    def each(x, rows):
        adapter.set_parameters(module, np.array(x))
        return one_by_one(module, rows)

    return pabi.learn.train(described, each, adapter.start, seed).x


@pytest.mark.parametrize(
    ("batches", "chunk"),
    [
        (pabi.Poisson(16), 1),
        (pabi.ShuffleOnce(16), None),
        (pabi.Reshuffle(16, N % 16), None),
        (pabi.BallsInBins(16, redraw="epoch"), None),
    ],
    ids=["poisson", "shuffled", "spare", "bins"],
)
def test_iterates_are_those_of_numpy_with_gradients_one_by_one(batches, chunk):
    """From batches drawn anew in chunks of one: last bits may depend on the place in a chunk."""
    described = run(pabi.Loss.unknown(), clip_norm=0.5, batches=batches)
    module = network()
    dataset = Listed(torch.as_tensor(X), torch.as_tensor(CLASSES))
    result = integration.train(module, dataset, described, loss=LOSS, chunk=chunk, random_state=5)
    truth = by_hand(described, network(), 5)
    np.testing.assert_allclose(result.x, truth, rtol=0, atol=1e-10)
    flat = torch.cat([p.detach().ravel() for p in result.module.parameters()])
    np.testing.assert_allclose(flat.numpy(), truth, rtol=0, atol=1e-10)
    assert torch.equal(module[0].weight, network()[0].weight), "the module itself is left alone"
    assert result.guarantee.method in ("composition", "secret steps")
    assert result.guarantee.epsilon(1e-5) == described.guarantee().epsilon(1e-5)
    assert any("does not train" in sentence for sentence in result.guarantee.assumptions)


def test_hidden_paths_are_trained_in_doubles(monkeypatch):
    """Rounding gradients to single precision would carry apart what the proof holds together."""
    seen = []

    class Noted(ModuleGradients):
        def __init__(self, module, *arguments, **keywords):
            super().__init__(module, *arguments, **keywords)
            seen.append({p.dtype for p in module.parameters()})

    monkeypatch.setattr(training, "ModuleGradients", Noted)
    convex = pabi.Loss.convex(smoothness=4.0, gradient_bound=9.0, l2=0.1)
    module = torch.nn.Sequential(torch.nn.Linear(D, 1, bias=False)).float()
    dataset = pairs(X.astype(np.float32), X[:, :1].astype(np.float32))
    for stated in (convex, pabi.Loss.unknown()):
        clip = {"clip_norm": 0.5} if stated.kind == "unknown" else {}
        described = run(stated, **clip)
        result = integration.train(module, dataset, described, loss=torch.nn.HuberLoss())
        assert result.module[0].weight.dtype == torch.float32
        every = result.guarantee.method in ("composition", "secret steps")
        assert every == (stated.kind == "unknown")
    assert seen == [{torch.float64}, {torch.float32}]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_modules_and_parameters_without_values_are_refused():
    scripted = torch.jit.script(network())
    for module in (scripted, torch.nn.Sequential(scripted, torch.nn.Identity())):
        words = "module: expected no torch.jit.ScriptModule"
        assert str(refusal(module)).startswith(words)
    empty = torch.nn.Sequential(torch.nn.Linear(D, K, device="meta"))
    assert str(refusal(empty)).startswith("module: expected parameters that have values")


def test_dropout_draws_for_every_record():
    module = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(D, K)).double()
    same = np.repeat(X[:1], 8, axis=0), np.repeat(CLASSES[:1], 8)
    adapter = gradients(module, data=same)
    values = adapter(adapter.start, np.arange(8))
    assert len(np.unique(values, axis=0)) > 1
    adapter.refuse_unfit(anywhere=True)
    module.train(False)
    values = adapter(adapter.start, np.arange(8))
    assert len(np.unique(values, axis=0)) == 1


def test_records_of_a_call_are_bounded_by_memory_and_data(monkeypatch):
    assert gradients(network()).chunk == N
    monkeypatch.setattr(training, "_HELD", 300)
    assert gradients(network()).chunk == 300 // gradients(network()).start.size


def test_autocast_shortens_what_composition_covers_alone():
    """Where the path is hidden gradients are in doubles, with autocast around the call as without."""
    module, data = torch.nn.Sequential(linear(D, K).float()), pairs(X, CLASSES)
    hidden = run(pabi.Loss.convex(smoothness=4.0), clip_norm=1.0, batches=pabi.ShuffleOnce(16))
    for described in (hidden, run(pabi.Loss.unknown(), clip_norm=1.0)):
        ends = []
        for enabled in (False, True):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
                result = integration.train(module, data, described, loss=LOSS, random_state=0)
            ends.append(result.x)
        assert np.array_equal(*ends) is (described is hidden)


# Where there is no CUDA device, the CPU stands in for one.
HOST = torch.device("cpu")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
KINDS = {
    "softmax": lambda records: SoftmaxGradients(records, CLASSES, K),
    "logistic": lambda records: LogisticGradients(records, CLASSES % 2),
    "squared": lambda records: SquaredGradients(records, X[:, 0], 0.5),
}


@every("dtype", [np.float32, np.float64])
@every("norm", [None, 1.0, 100.0])
@every("scaling", [None, 0.7])
@every("kind", KINDS)
def test_sums_are_those_of_the_host(kind, scaling, norm, dtype, monkeypatch):
    monkeypatch.setattr(library, "MOST_ROWS", 16)
    table_ = X.astype(dtype)
    host = KINDS[kind](Records(table_, norm, scaling))
    device = KINDS[kind](DeviceRecords(table_, norm, scaling, DEVICE))
    theta = np.random.default_rng(1).normal(size=host.shape)
    limit = Limit(0.4, 1.0 - 1e-12)
    for rows in (slice(0, N), slice(7, 50), np.random.default_rng(2).permutation(N)[:41]):
        one, other = (each.clipped_sum(theta, rows, limit) for each in (host, device))
        np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)


def test_a_run_is_the_same_on_a_device(monkeypatch):
    """From the choice of products to the trained module."""
    described = run(pabi.Loss.softmax(2.0), clip_norm=0.5)
    given = linear(X.shape[1], K), pairs(X, CLASSES), described
    host = integration.train(*given, random_state=0)
    monkeypatch.setattr(head_training, "multiplies", lambda device, described: True)
    device = integration.train(*given, device=DEVICE, random_state=0)
    np.testing.assert_allclose(device.x, host.x, rtol=0, atol=1e-10)
    assert library.PRODUCTS in device.guarantee.assumptions
    assert library.PRODUCTS not in host.guarantee.assumptions
    monkeypatch.setenv("CUBLAS_EMULATE_DOUBLE_PRECISION", "1")
    refused("CUBLAS_EMULATE_DOUBLE_PRECISION", integration.train, *given, device=DEVICE)


def test_which_runs_are_multiplied_on_a_device():
    """Those in which a record keeps its place, and whose gradients are never formed one by one."""
    cuda, ordered = torch.device("cuda"), run(pabi.Loss.softmax(2.0), clip_norm=0.5)
    assert multiplies(cuda, ordered)
    assert not multiplies(HOST, ordered)
    assert not multiplies(torch.device("mps"), ordered)
    assert not multiplies(cuda, replace(ordered, batches=pabi.Poisson(16)))
    assert not multiplies(cuda, replace(ordered, clipping="coordinates"))
    assert multiplies(cuda, replace(ordered, batches=pabi.BallsInBins(16)))


# Trainings that are interrupted and go on, and noise that is found for an ε.

HEAD = run(pabi.Loss.softmax(2.0, l2=0.1), batches=pabi.Reshuffle(10), noise_std=0.5)
WHOLE = replace(HEAD, loss=pabi.Loss.unknown(), clip_norm=1.0, update=pabi.updates.Adam())
AT = 9  # the step that is not taken, within an epoch


class Crash(KeyboardInterrupt):
    pass


def trained(whole=False, module=None, described=None, **options):
    if whole:
        module = module or torch.nn.Sequential(linear(D, 4), torch.nn.Tanh(), linear(4, K))
        options["loss"] = torch.nn.CrossEntropyLoss()
    described = described or (WHOLE if whole else HEAD)
    return integration.train(module or linear(D, K), pairs(X, CLASSES), described, **options)


def interrupted(whole, path, at=AT, **options):
    """A training that ends in the gradients of step `at`, having kept the state before it."""
    with pytest.MonkeyPatch.context() as patch:
        where, name = (ModuleGradients, "__call__") if whole else (LossGradients, "clipped_sum")
        original, calls = getattr(where, name), []

        def counted(self, *args, **kwargs):
            calls.append(0)
            if len(calls) == at:
                raise Crash
            return original(self, *args, **kwargs)

        patch.setattr(where, name, counted)
        with pytest.raises(Crash):
            trained(whole, checkpoint=path, checkpoint_seconds=0.0, **options)


@every("whole", [False, True])
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path, whole):
    """One stream of noise for both parts, which draws as one run does: every number is the same."""
    path = tmp_path / f"secret-{whole}"
    stream = np.random.default_rng(5)
    interrupted(whole, path, random_state=stream)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    result = trained(whole, resume=path, random_state=stream)
    wanted = trained(whole, random_state=np.random.default_rng(5))
    assert np.array_equal(result.x, wanted.x)
    for name, value in wanted.module.state_dict().items():
        assert torch.equal(result.module.state_dict()[name], value)
    assert not path.exists()


@every("whole", [False, True])
def test_what_was_assumed_of_one_part_is_assumed_of_the_whole(tmp_path, whole):
    interrupted(whole, tmp_path / "fair")
    fair = trained(whole, resume=tmp_path / "fair").guarantee
    assert {RESUMED, SAME} <= set(fair.assumptions)
    interrupted(whole, tmp_path / "seeded", random_state=0)
    ledger = pabi.Ledger(tmp_path / f"ledger-{whole}", 1e3, 1e-5)
    seeded = trained(whole, resume=tmp_path / "seeded", ledger=ledger).guarantee
    assert "testing only" in seeded.assumptions[0]
    assert seeded.certificate is None
    (entry,) = ledger.report().entries
    assert entry.testing


def test_a_file_that_does_not_serve_is_refused_before_anything_is_charged(tmp_path):
    path, ledger = tmp_path / "secret", pabi.Ledger(tmp_path / "ledger", 1e3, 1e-5)
    interrupted(False, path)
    moments = pabi.NoisySecondMoments(N, D + 1, feature_norm=2.0, noise_std=0.5)
    kept = path.read_bytes()
    for field, options in (
        ("checkpoint", {"checkpoint": path}),
        ("resume", {"resume": tmp_path / "none"}),
        ("resume", {"resume": path, "described": replace(HEAD, epochs=4)}),
        ("x0", {"resume": path, "module": linear(D, K, seed=3)}),
        *(("checkpoint_seconds", {"resume": path, "checkpoint_seconds": s}) for s in (-1.0, "60")),
        *((name, {name: path, "precondition": moments}) for name in ("checkpoint", "resume")),
    ):
        refused(field, trained, ledger=ledger, **options)
    assert not ledger.report().entries
    assert path.read_bytes() == kept


# ε.


@every("whole", [False, True])
def test_epsilon_finds_the_noise_of_calibrate(tmp_path, whole):
    described = replace(WHOLE if whole else HEAD, noise_std=None)
    options = {"epsilon": 8.0, "delta": 1e-6, "described": described}
    result = trained(whole, **options)
    found, computed = pabi.calibrate(described, epsilon=8.0, delta=1e-6), result.run
    # A little more for the rounding of a hidden path.
    assert found.noise_std <= computed.noise_std <= found.noise_std * (1.0 + 1e-4)
    assert (computed.rounding > 0.0) == (computed.noise_std > found.noise_std)
    assert replace(computed, rounding=0.0, noise_std=found.noise_std) == found
    assert 7.9 < result.guarantee.epsilon(1e-6) <= 8.0
    interrupted(whole, tmp_path / f"{whole}", **options)
    assert trained(whole, resume=tmp_path / f"{whole}", **options).run == result.run


def test_epsilon_counts_second_moments(tmp_path):
    moments = pabi.NoisySecondMoments(N, D + 1, feature_norm=2.0, noise_multiplier=4.0)
    ledger = pabi.Ledger(tmp_path / "ledger", 5.0, 1e-5)
    described = replace(HEAD, loss=pabi.Loss.softmax(1.0))
    result = trained(described=described, epsilon=3.0, precondition=moments, ledger=ledger)
    assert 2.97 < result.guarantee.epsilon(1e-5) <= 3.0
    with pytest.raises(pabi.TargetUnreachable):
        trained(described=described, epsilon=0.5, precondition=moments)
    refused("epsilon", trained, epsilon=-1.0)
