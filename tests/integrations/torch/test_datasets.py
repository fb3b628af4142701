"""Records in batches: what one of them is changes neither the numbers nor the memory of the others."""

from dataclasses import replace

import numpy as np
import pytest

import pabi
from support.every_case import every, refused
from support.frameworks import framework
from support.modules import D, K, Listed, linear, run

torch = framework("torch")
from pabi.integrations import torch as integration  # noqa: E402
from pabi.integrations.torch import head_training  # noqa: E402
from pabi.integrations.torch.datasets import Pairs, dataset_of  # noqa: E402

INPUTS = torch.arange(12, dtype=torch.uint8).reshape(4, 3)
OTHERS = "all of the dtypes and shapes of the first, got others"


def listed(inputs=None, targets=None):
    return Listed(list(INPUTS) if inputs is None else inputs, targets or [16777217, 0, 1, 2])


def with_other(values, row, other):
    changed = list(values)
    changed[row] = other
    return changed


MIXED = {
    "float among bytes": listed(with_other(INPUTS, 2, INPUTS[2].float())),
    "numpy's doubles among bytes": listed(with_other(INPUTS, 2, np.zeros(3))),
    "bytes of another shape": listed(with_other(INPUTS, 2, INPUTS[2][:1])),
    "float among targets": listed(targets=[16777217, 0, 0.5, 1]),
    "single among double targets": listed(targets=[0.1, 0.2, np.float32(0.3), 0.4]),
    "bool among targets": listed(targets=[3, 2, True, 1]),
}


@every("name", MIXED)
@every("rows", [[0, 1, 2, 3], [2]])
def test_a_record_of_another_type_is_refused_and_changes_no_other(name, rows):
    pairs = Pairs(MIXED[name])
    with pytest.raises(pabi.InvalidInput, match=OTHERS) as caught:
        pairs.some(rows)
    assert "16777217" not in str(caught.value)
    for together in (2, 3):
        with pytest.raises(pabi.InvalidInput, match=OTHERS):
            list(pairs.in_order(together))
    batch = pairs.some([0, 1, 3])
    for part, alone in zip(zip(*batch, strict=True), (0, 1, 3), strict=True):
        one = pairs.some([alone])
        assert all(torch.equal(x, y[0]) for x, y in zip(part, one, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_integers_and_doubles_arrive_as_they_are(workers):
    pairs = Pairs(listed(targets=[16777217, 2**53 + 1, 0, 1]), workers)
    batches = list(pairs.in_order(3))
    assert [len(x) for x, _ in batches] == [3, 1]
    assert torch.equal(torch.cat([x for x, _ in batches]), INPUTS)
    assert torch.cat([y for _, y in batches]).tolist() == [16777217, 2**53 + 1, 0, 1]
    assert pairs.some([1])[1].tolist() == [2**53 + 1]
    refused("dataset", list, Pairs(MIXED["float among bytes"], workers).in_order(3))
    assert Pairs(listed(targets=[0.1, 0.7, 1e300, 1.0])).some([1, 2])[1].tolist() == [0.7, 1e300]


@every("odd", [None, 0, 1, 2])
def test_no_record_chooses_the_memory_of_a_batch(odd):
    """Images of channels last, all of them or all but one, and one that asks for gradients."""
    flat = torch.arange(96.0).reshape(4, 4, 2, 3)
    images = [image.permute(2, 0, 1) for image in flat]
    if odd is not None:
        images[odd] = images[odd].contiguous().requires_grad_()
    batch = Pairs(listed(images)).some([0, 1, 2, 3])[0]
    assert batch.stride() == (24, 8, 2, 1)
    assert not batch.requires_grad
    assert torch.equal(batch, flat.permute(0, 3, 1, 2))


# Loaders.


class Reversed(torch.utils.data.Sampler):
    def __init__(self, dataset):
        self.data_source = dataset

    def __iter__(self):
        return iter(range(len(self.data_source)))[::-1]


@every("options", [{}, {"shuffle": True, "batch_size": 4, "drop_last": True}, {"batch_size": None}])
def test_of_a_plain_loader_the_dataset_is_taken(options):
    records = listed()
    assert dataset_of(torch.utils.data.DataLoader(records, **options)) is records
    described = run(pabi.Loss.softmax(20.0), n=4, batches=pabi.FullBatch())
    loader = torch.utils.data.DataLoader(listed(targets=[0, 1, 2, 1]), **options)
    module = torch.nn.Sequential(Scaled(), linear(3, K))
    assert integration.train(module, loader, described, head="1").run.n == 4
    assert len(integration.features(module, loader, head="1")) == 4


def test_a_record_that_is_there_several_times_is_refused():
    data, records = torch.utils.data, listed(targets=[0, 1, 2, 1])
    twice = data.Subset(records, [0, 1, 1, 2])
    others = [
        twice,
        data.DataLoader(twice),
        data.Subset(records, torch.tensor([3, -1])),
        data.ConcatDataset([records, data.Subset(records, [2])]),
        data.Subset(
            data.ConcatDataset([records, data.Subset(data.Subset(records, [3, 2]), [1])]), [2, 4]
        ),
    ]
    stated = run(pabi.Loss.softmax(20.0), n=4, batches=pabi.FullBatch())
    for other in others:
        assert "several times" in refused("dataset", integration.train, linear(3, K), other, stated)
    assert "several times" in refused("dataset", integration.features, linear(3, K), twice, head="")
    parts = [data.Subset(records, [3, 0]), data.Subset(records, range(1, 3))]
    assert len(Pairs(data.ConcatDataset(parts))) == 4
    assert len(Pairs(data.ConcatDataset([records, listed()]))) == 8


def test_a_loader_of_other_batches_is_refused():
    records = listed([*INPUTS, INPUTS[0]], [0, 1, 2, 1, 0])
    shuffled = {"n": 5, "batches": pabi.Reshuffle(2)}
    described = run(pabi.Loss.softmax(20.0), **shuffled)

    def loader(size, **options):
        return torch.utils.data.DataLoader(records, size, shuffle=True, **options)

    assert "batch size, 2, " in refused("dataset", dataset_of, loader(3), described)
    assert "spare=1" in refused("dataset", dataset_of, loader(2, drop_last=True), described)
    spared = replace(described, batches=pabi.Reshuffle(2, spare=1))
    for plain, stated in (
        (loader(2, drop_last=True), spared),
        (loader(2), described),
        (loader(1), described),
    ):
        assert dataset_of(plain, stated) is records


def test_a_loader_that_chooses_or_changes_records_is_refused():
    """And two tensors are told the dataset of both."""
    data, records = torch.utils.data, listed()
    samplers = [
        *(Reversed(records), data.SequentialSampler(range(2)), data.SubsetRandomSampler([0, 1])),
        *(
            data.RandomSampler(records, **odd)
            for odd in ({"replacement": True}, {"num_samples": 2})
        ),
        data.WeightedRandomSampler([1.0, 1.0, 1.0, 5.0], 4),
    ]
    loaders = [
        type("Own", (data.DataLoader,), {})(records),
        data.DataLoader(records, collate_fn=lambda rows: rows),
        data.DataLoader(records, worker_init_fn=print, num_workers=1),
        data.DataLoader(records, batch_sampler=integration.PoissonSampler(4, 2)),
        *(data.DataLoader(records, sampler=sampler) for sampler in samplers),
    ]
    for loader in loaders:
        assert "loader.dataset" in refused("dataset", dataset_of, loader)
    endless = type("Endless", (data.IterableDataset,), {"__iter__": None})()
    loader = data.DataLoader(endless, batch_size=2)
    assert "which has a length" in refused("dataset", lambda: Pairs(dataset_of(loader)))
    line = "such as TensorDataset(inputs, targets), got a Tensor"
    assert line in refused("dataset", Pairs, (torch.ones(3, D), torch.ones(3)))


# The features of a head.


class Scaled(torch.nn.Module):
    """A module that treats bytes as the pixels of images."""

    def forward(self, x):
        return x.double() / 255 if x.dtype == torch.uint8 else x.double()


def of_rows(module, inputs):
    head = head_training.Head(module, "1" if isinstance(module, torch.nn.Sequential) else "")
    return head.table(Pairs(listed(inputs)))[0]


def test_the_features_of_others_do_not_depend_on_the_type_of_one():
    module = torch.nn.Sequential(Scaled(), linear(3, K))
    np.testing.assert_array_equal(of_rows(module, list(INPUTS)), INPUTS.numpy() / 255.0)
    assert of_rows(linear(3, K), list(INPUTS)).dtype == np.float64
    with pytest.raises(pabi.InvalidInput, match=OTHERS):
        of_rows(module, with_other(INPUTS, 2, INPUTS[2].float()))


@every("first", [3.0, 0.7])
@pytest.mark.filterwarnings("error")
def test_a_table_is_of_the_layers_type_whatever_comes_first(monkeypatch, first):
    """Numbers too large for it warn of nothing."""
    monkeypatch.setattr(head_training, "AT_ONCE", 2)
    rows = torch.tensor([[first] * 3, [1.0] * 3, [0.7] * 3, [0.1] * 3], dtype=torch.float64)
    table = of_rows(linear(3, K), list(rows))
    assert table.dtype == np.float64
    np.testing.assert_array_equal(table, rows.numpy())
    large = of_rows(linear(3, K).float(), list(1e300 * rows))
    assert large.dtype == np.float32
    assert np.isinf(large).all()


def test_a_whole_module_trains_on_records_as_they_are():
    """The gradients of other records, where one is a float among bytes, would be those of other pixels."""
    module = torch.nn.Sequential(Scaled(), linear(3, K))
    described = run(pabi.Loss.unknown(), n=4, batches=pabi.FullBatch(), epochs=1, clip_norm=1.0)
    loss = torch.nn.CrossEntropyLoss()
    targets = [0, 1, 2, 0]
    integration.train(module, listed(targets=targets), described, loss=loss)
    mixed = listed(with_other(INPUTS, 2, INPUTS[2].float()), targets)
    with pytest.raises(pabi.InvalidInput, match=OTHERS):
        integration.train(module, mixed, described, loss=loss)
