"""Entries for the registry of deployments: fields of its schema, numbers rounded up, nothing made up."""

import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
import yaml

import pabi
from pabi.learn import PrivateLogisticRegression
from pabi.show.formats import registry_entry
from support.tables import assert_one_line
from support.tables import run as call

DELTA = 1e-5
RUN = pabi.NoisySGD(
    pabi.Loss.logistic(feature_norm=1.0, l2=0.1),
    n=1_000,
    batches=pabi.ShuffleOnce(100),
    epochs=3,
    step_size=0.1,
    noise_std=0.05,
    adjacency="zero_out",
)
# The fields of schemas/deployments-schema.yaml at commit 3e9c812a, all but those of `basic` as lists.
SCHEMA = {
    "basic": {
        "data_product_type": [
            "Summary statistics",
            "Machine learning model",
            "Dataset",
            "Synthetic data",
        ],
        **dict.fromkeys(
            ["name", "data_curators", "intended_use", "data_product_region", "description"], str
        ),
        **dict.fromkeys(["publication_date", "data_product_sector"], str),
    },
    "dp_variant": {
        "variant_name": ["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"],
        **dict.fromkeys(["data_domain", "unprotected_quantities"], str),
    },
    "privacy_loss": {
        "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
        **dict.fromkeys(
            ["privacy_unit", "privacy_unit_details", "privacy_parameters_details"], str
        ),
    },
    "accounting": dict.fromkeys(["post_processing", "composition"], str),
    "implementation": dict.fromkeys(
        ["preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"], str
    ),
    "administrative": {"sources": str, "notes": str, "registry_authors": list},
}


def assert_fits(value, schema):
    if isinstance(schema, dict):
        assert set(value) <= set(schema)
        for name, inner in value.items():
            assert_fits(inner, schema[name])
    elif isinstance(schema, list):
        assert value in schema
    else:
        assert isinstance(value, schema)
        assert value not in ("", [], None)


def entry(guarantee, delta=DELTA):
    return registry_entry(guarantee, delta, pabi.verify(guarantee))


def test_the_command_writes_what_the_guarantee_knows_and_no_more(tmp_path):
    guarantee = RUN.guarantee(DELTA)
    source, file = tmp_path / "guarantee.json", tmp_path / "entry.json"
    source.write_text(guarantee.to_json(), encoding="utf-8")
    status, out, err = call("report", str(source), "--registry", str(file), "--delta", "1e-6")
    assert (status, err) == (0, "")
    assert out.startswith("# Privacy report")
    written = json.loads(file.read_text("utf-8"))
    assert yaml.safe_load(file.read_text("utf-8")) == written
    assert "&" not in file.read_text("utf-8")
    assert set(written) == {"status", "deployment"}
    assert written["status"] == "Draft"
    assert_fits(written["deployment"], SCHEMA)
    assert "basic" not in written["deployment"]
    loss = written["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"]["delta"] == 1e-6
    epsilon = Decimal(repr(loss["privacy_parameters"]["epsilon"]))
    assert 0 <= epsilon - Decimal(guarantee.epsilon(1e-6)) < Decimal("1e-5")
    assert loss["privacy_unit"] == "record"
    assert "accepted" in written["deployment"]["implementation"]["mechanisms"]
    for sentence in guarantee.assumptions[:3]:
        assert sentence in written["deployment"]["implementation"]["justification"]
    assert_one_line(call("report", str(source), "--registry", str(file)), "--force")
    same = ("report", str(source), "--registry", str(file), "--out", str(file), "--force")
    assert_one_line(call(*same))


def test_a_model_is_called_one_and_what_is_not_covered_is_said():
    X = np.random.default_rng(0).normal(size=(300, 2)) / 9.0
    model = PrivateLogisticRegression(1.0, 1e-3, 1.0, classes=[0, 1], epochs=2)
    model.fit(X, (X[:, 0] > 0).astype(int))
    again = entry(model.guarantee_.noting({"models_sha256": ["0" * 64]}), 1e-3)["deployment"]
    assert_fits(again, SCHEMA)
    assert again["basic"] == {"data_product_type": "Machine learning model"}
    assert "0" * 64 in again["administrative"]["notes"]


def test_no_sentence_of_a_file_becomes_a_tag():
    stated = pabi.Guarantee.from_tradeoff(
        pabi.tradeoff.Gaussian(1.0),
        method="noise",
        adjacency="zero_out",
        source="<script>x</script>",
    )
    assert "<script" not in json.dumps(entry(stated))


def test_what_is_no_deployment_is_refused():
    with pytest.raises(pabi.InvalidInput, match="testing only"):
        entry(RUN.guarantee(DELTA).for_testing())
    with pytest.raises(pabi.InvalidInput, match="records of batch 1 alone"):
        entry(replace(RUN, batches=pabi.Cyclic(100)).guarantee(DELTA, position=1))
    with pytest.raises(pabi.InvalidInput, match="forgetting"):
        entry(RUN.unlearning(DELTA, epochs=1))
    approximate = pabi.Guarantee.from_tradeoff(
        pabi.tradeoff.ApproxDP(1.0, 1e-3), method="survey", adjacency="zero_out", source="a survey"
    )
    with pytest.raises(pabi.InvalidInput, match="finite epsilon"):
        entry(approximate)
