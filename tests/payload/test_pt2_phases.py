"""Transposed convolutions of exported programs are dense ones, which give what PyTorch gives."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

CASES = {
    "uneven strides": (torch.nn.ConvTranspose2d(6, 5, (3, 4), (2, 3), 1, output_padding=(1, 0)), (2, 6, 4, 5)),
    "one stride, groups": (torch.nn.ConvTranspose2d(4, 6, 3, groups=2, bias=False), (1, 4, 3, 5)),
    "a line": (torch.nn.ConvTranspose1d(3, 2, 2, stride=2), (1, 3, 7)),
    "a volume of uneven strides": (
        torch.nn.ConvTranspose3d(2, 3, 3, stride=2, padding=1, output_padding=1),
        (1, 2, 2, 3, 2),
    ),
    "three by four": (torch.nn.ConvTranspose2d(2, 4, 4, stride=3, groups=2, bias=False), (1, 2, 3, 2)),
    "a kernel shorter than the stride": (torch.nn.ConvTranspose1d(3, 2, 2, stride=3, output_padding=1), (2, 3, 7)),
    "one side shorter": (torch.nn.ConvTranspose2d(4, 6, (1, 4), (2, 2), (0, 1), groups=2), (1, 4, 3, 5)),
    "a volume": (torch.nn.ConvTranspose3d(2, 3, 2, stride=2), (1, 2, 2, 3, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_transposed_convolution_is_a_dense_one(name):
    pytest.importorskip("ml_dtypes")
    from payload.importers.pt2_phases import write_phases
    from payload.importers.pt2_values import compute

    model, shape = CASES[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    x.view(-1)[[0, x.numel() // 2]] = torch.tensor([torch.nan, torch.inf])
    program = torch.export.export(model.eval(), (x,)).run_decompositions()
    held = program.graph_signature.inputs_to_parameters
    weights = {place: program.state_dict[key].detach().numpy() for place, key in held.items()}
    graph = program.graph_module.graph
    write_phases(graph, weights)
    convolutions = [node for node in graph.nodes if "aten.convolution" in str(node.target)]
    assert not any(node.args[6] for node in convolutions)
    placeholders = {node.name for node in graph.nodes if node.op == "placeholder"}
    assert len(placeholders - weights.keys()) == 1
    values = dict.fromkeys(placeholders - weights.keys(), x.numpy()) | weights
    (got,) = compute(graph, values)
    with torch.no_grad():
        np.testing.assert_allclose(got, model.double()(x.double()).numpy(), atol=1e-6)
