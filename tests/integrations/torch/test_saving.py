"""Files of PyTorch in which the guarantee travels."""

from __future__ import annotations

import pytest

import pabi
from support.frameworks import framework
from support.modules import D, K, linear, pairs, run, table

torch = framework("torch")
from pabi.integrations import torch as integration  # noqa: E402

X, CLASSES = table()


@pytest.fixture(scope="module")
def trained():
    return integration.train(linear(D, K), pairs(X, CLASSES), run(pabi.Loss.softmax(2.0)))


@pytest.fixture
def file(trained, tmp_path):
    integration.save(trained, tmp_path / "model.pt")
    return tmp_path / "model.pt"


def test_weights_and_guarantee_come_back_and_nothing_is_executed(trained, file):
    content = torch.load(file, weights_only=True)
    assert set(content["state_dict"]) == {"weight", "bias"}
    assert content["guarantee"] == trained.guarantee.to_json()
    other = linear(D, K, seed=9)
    guarantee = integration.load(file, other)
    assert torch.equal(other.weight, trained.module.weight)
    assert torch.equal(other.bias, trained.module.bias)
    assert guarantee.to_json() == trained.guarantee.to_json()
    assert guarantee.assumptions == trained.guarantee.assumptions
    assert pabi.verify(guarantee).ok


class Loud:
    def __reduce__(self):
        return print, ("executed",)


def test_other_files_and_modules_are_refused(file, tmp_path, capfd):
    content = torch.load(file, weights_only=True)
    cases = [
        ({"state_dict": content["state_dict"]}, "save"),
        (content | {"format": "another"}, "save"),
        (content | {"version": 2}, "version"),
        (content | {"version": 1, "guarantee": "{}"}, "format"),
        ([1, 2], "save"),
        ({"format": Loud()}, "save"),
    ]
    for changed, words in cases:
        torch.save(changed, tmp_path / "changed.pt")
        with pytest.raises(pabi.InvalidInput, match=words):
            integration.load(tmp_path / "changed.pt", linear(D, K))
    assert "executed" not in capfd.readouterr().out
    (tmp_path / "text.pt").write_text("no archive")
    with pytest.raises(pabi.InvalidInput, match="save"):
        integration.load(tmp_path / "text.pt", linear(D, K))
    with pytest.raises(OSError, match="nowhere"):
        integration.load(tmp_path / "nowhere.pt", linear(D, K))
    with pytest.raises(pabi.InvalidInput, match="architecture"):
        integration.load(file, linear(D, K + 1))
    with pytest.raises(pabi.InvalidInput, match="module"):
        integration.load(file, "a module")
    with pytest.raises(pabi.InvalidInput, match="trained"):
        integration.save(linear(D, K), tmp_path / "other.pt")


def test_a_testing_guarantee_travels_as_one(tmp_path):
    with pytest.warns(pabi.PrivacyWarning):
        result = integration.train(
            linear(D, K), pairs(X, CLASSES), run(pabi.Loss.softmax(2.0)), random_state=0
        )
    integration.save(result, tmp_path / "test.pt")
    guarantee = integration.load(tmp_path / "test.pt", linear(D, K))
    assert guarantee.assumptions == result.guarantee.assumptions
    assert any("testing only" in sentence for sentence in guarantee.assumptions)
