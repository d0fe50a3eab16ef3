"""Made-up inputs for a model: sizes and values that suit their names."""

import pytest

from extras.doctor.explain import inputs
from extras.doctor.explain.graph import ExplainError, GraphValue, read
from tests.extras.doctor.explain.kinds import written


def test_numbers_are_what_their_names_say(tmp_path):
    graph = read(written("Piper", tmp_path))
    plan = inputs.make_plans(graph.inputs, {})[0]
    made = inputs.make_arrays(plan)
    assert made["input_lengths"].tolist() == [32] and made["sid"].tolist() == [0]
    assert made["scales"].tolist() == pytest.approx([0.667, 1.0, 0.8])
    assert made["input"].dtype == "int64" and 0 <= made["input"].min() <= made["input"].max() < 60
    assert all((made[name] == inputs.make_arrays(plan)[name]).all() for name in made)


def test_silero_is_given_its_sampling_rate_and_an_empty_state(tmp_path):
    graph = read(written("Silero VAD", tmp_path))
    made = inputs.make_arrays(inputs.make_plans(graph.inputs, {})[0])
    assert made["sr"] == 16_000 and made["sr"].shape == ()
    assert not made["state"].any() and made["input"].any()


@pytest.mark.parametrize("kind", ["int64", "float32", "bool"])
def test_a_mask_lets_everything_through_and_what_is_past_is_empty(kind):
    """Otherwise a text model attends to nothing, and its time and output mean nothing."""
    graph = [
        GraphValue("input_ids", "int64", (1, "n"), 100),
        GraphValue("past_key", "float32", (1, 4)),
        GraphValue("attention_mask", kind, (1, "n")),
    ]
    made = inputs.make_arrays(inputs.make_plans(graph, {})[0])
    assert made["attention_mask"].shape == made["input_ids"].shape
    assert made["attention_mask"].all() and made["input_ids"].any() and not made["past_key"].any()


def test_a_shape_that_is_said_is_taken(tmp_path):
    graph = read(written("ECAPA", tmp_path))
    plans = inputs.make_plans(graph.inputs, {"feats": (2, 50, 80)})
    assert [[filling["shape"] for filling in plan] for plan in plans] == [[[2, 50, 80]]]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"feats": (1, 50, 40)}, r"feats=1x50x40 does not fit the declared shape BxTx80"),
        ({"feats": (50, 80)}, "does not fit"),
        ({"x": (1,)}, "no such input. Its inputs: feats"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(said, told, tmp_path):
    graph = read(written("ECAPA", tmp_path))
    with pytest.raises(ExplainError, match=told):
        inputs.make_plans(graph.inputs, said)
