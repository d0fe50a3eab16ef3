"""The contents of a traced graph; the weights stay in place."""

from extras.onnx.export import exporter, graphs
from extras.onnx.export.tracing import trace


def test_a_trace_leaves_the_weights_where_they_are(base_folder):
    """It traces stand-in tensors, so that the 1.5 GB of a full-size model are not read."""
    gpt = exporter.mapped_model(base_folder).gpt
    before = {name: value.data_ptr() for name, value in gpt.state_dict().items()}
    _, weights = trace(graphs.step_graph(gpt), folded=False)
    assert {name: value.data_ptr() for name, value in gpt.state_dict().items()} == before
    lying = set(before.values())
    assert {value.data_ptr() for value in weights.values()} <= lying
