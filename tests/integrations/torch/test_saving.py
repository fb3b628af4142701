"""Files of PyTorch in which the guarantee travels."""

import copy
import hashlib
import json
import struct
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import pabi
from pabi.cli import app
from pabi.cli.verifying import _compared
from pabi.learn import model_hash, parameters_hash
from support.every_case import refused
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


def test_a_testing_guarantee_travels_as_one(file):
    stated = run(pabi.Loss.softmax(2.0))
    seeded = integration.train(linear(D, K), pairs(X, CLASSES), stated, random_state=0)
    integration.save(seeded, file)
    assumptions = integration.load(file, linear(D, K)).assumptions
    assert assumptions == seeded.guarantee.assumptions
    assert any("testing only" in sentence for sentence in assumptions)


class Loud:
    def __reduce__(self):
        return print, ("executed",)


def test_other_files_and_modules_are_refused(file, tmp_path, capfd):
    content, changed = torch.load(file, weights_only=True), tmp_path / "changed.pt"
    for other, words in (
        ({"state_dict": content["state_dict"]}, "save"),
        (content | {"format": "another"}, "save"),
        *((content | {"version": version}, "version") for version in (2, torch.ones(2))),
        (content | {"version": 1, "guarantee": "{}"}, "format"),
        (content | {"guarantee": None}, "save"),
        (content | {"state_dict": torch.ones(2)}, "save"),
        *(([1, 2], "save"), ({"format": Loud()}, "save")),
    ):
        torch.save(other, changed)
        with pytest.raises(pabi.InvalidInput, match=words):
            integration.load(changed, linear(D, K))
    assert "executed" not in capfd.readouterr().out
    changed.write_text("no archive")
    for path, module, words in (
        (changed, linear(D, K), "save"),
        (file, linear(D, K + 1), "architecture"),
        (file, "a module", "module"),
    ):
        with pytest.raises(pabi.InvalidInput, match=words):
            integration.load(path, module)
    with pytest.raises(OSError, match="nowhere"):
        integration.load(tmp_path / "nowhere.pt", linear(D, K))
    refused("trained", integration.save, linear(D, K), tmp_path / "other.pt")


def test_other_weights_do_not_travel_with_the_guarantee(trained, file, tmp_path):
    """As of a module that was trained further, or of a file that was put together."""
    module = copy.deepcopy(trained.module)
    with torch.no_grad():
        module.weight[0, 0] += 1.0
    further = replace(trained, module=module)
    assert "got others" in refused("trained", integration.save, further, tmp_path / "further.pt")
    assert not (tmp_path / "further.pt").exists()
    content = torch.load(file, weights_only=True)
    torch.save(content | {"state_dict": module.state_dict()}, file)
    before = linear(D, K, seed=9)
    kept = before.weight.clone()
    assert "got others" in refused(str(file), integration.load, file, before)
    assert torch.equal(before.weight, kept)


# Hashes, and files that are compared with a guarantee.


def test_the_hash_of_a_state_follows_its_definition(trained):
    """Put together again by hand, of a module, what was trained, its state, and that on any device."""
    state = {"b": torch.tensor(2.5), "a": torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T}
    held = {
        "a": ["bfloat16", [3, 2], struct.pack("<6H", 0, 0x4040, 0x3F80, 0x4080, 0x4000, 0x40A0)],
        "b": ["float32", [], struct.pack("<f", 2.5)],
    }
    held = {name: [*form, hashlib.sha256(x).hexdigest()] for name, (*form, x) in held.items()}
    text = json.dumps({"state": held}, sort_keys=True, separators=(",", ":"))
    assert model_hash(state) == hashlib.sha256(text.encode()).hexdigest()
    hashes = {model_hash(x) for x in (trained, trained.module, trained.module.state_dict())}
    assert hashes == {*trained.guarantee.notes["models_sha256"]}
    assert model_hash(linear(D, K)) not in hashes
    assert "model_hash" in refused("model", parameters_hash, trained.module)


def test_what_has_no_bytes_has_no_hash():
    two = torch.ones(2)
    quantized = torch.quantize_per_tensor(two, 0.1, 0, torch.qint8)
    for odd in (3, two.to_sparse(), torch.ones(2, device="meta"), quantized):
        refused("model", model_hash, {"a": two, "b": odd})


def compared(path, guarantee):
    return _compared(str(path), json.loads(guarantee.to_json()))


def test_a_file_of_torch_is_compared_with_the_notes(trained, file, tmp_path):
    torch.save(trained.module.state_dict(), tmp_path / "state.pt")
    for path in (file, tmp_path / "state.pt"):
        comparison = compared(path, trained.guarantee)
        assert comparison.same
        assert comparison.names == ("bias", "weight")
        assert "not the code of the layers" in comparison.lines[1]
    changed = copy.deepcopy(trained.module)
    with torch.no_grad():
        changed.weight[0, 0] = torch.nextafter(changed.weight[0, 0], torch.tensor(9.0).double())
    torch.save(changed.state_dict(), tmp_path / "changed.pt")
    assert not compared(tmp_path / "changed.pt", trained.guarantee).same
    bare = json.loads(trained.guarantee.to_json())
    del bare["notes"]["models_sha256"]
    refused("--model", _compared, str(file), bare)


def test_a_file_of_torch_runs_nothing(trained, tmp_path, capfd):
    path, one = tmp_path / "head.pt", torch.ones(1)
    for content in ({"w": Loud()}, trained.module, [1, 2], {}, {"w": 3}, {"w": one, 1: one}):
        torch.save(content, path)
        assert "state_dict" in refused(str(path), compared, path, trained.guarantee)
    for many in (2, 10**6):  # numbers of which the file has one
        torch.save({"w": one.expand(many), "b": one}, path)
        assert "all in it" in refused(str(path), compared, path, trained.guarantee)
    assert "executed" not in capfd.readouterr().out


def test_a_head_is_verified_from_the_command_line(trained, file, tmp_path):
    (tmp_path / "guarantee.json").write_text(trained.guarantee.to_json())
    asked = ["verify", str(tmp_path / "guarantee.json"), "--model", str(file)]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0
    assert "model        the one whose SHA-256 the notes have" in result.stdout
    integration.save(integration.train(linear(D, K), pairs(X, CLASSES), trained.run), file)
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 1
    assert "NOT the one (its parameters or buffers are others)" in result.stdout
