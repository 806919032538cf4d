"""Payloads of convolutions: their oracle against its laws, their text against the oracle, their parameters."""

import pickle

import numpy as np
import pytest
from payload_support import outputs_and_reference

from autotune.compiler.tasks.partition import partition
from autotune.core.errors import PayloadError
from autotune.registry import family_for
from payload import convolutions
from payload.comparators.numpy_ops import RULES
from payload.conv_reference import convolve
from payload.convolution import WindowSteps

SMALL = "conv,channels=4,filters=6,size=9"
SPECS = {
    SMALL: 2 * 6 * 81 * 4 * 9,
    f"{SMALL},layout=nhwc": 2 * 6 * 81 * 4 * 9,
    "conv,batch=2,channels=3,filters=5,size=11,stride=2,padding=0": 2 * 2 * 5 * 25 * 3 * 9,
    "conv,channels=4,filters=6,size=9,kernel=1,padding=0": 2 * 6 * 81 * 4,
    "conv,channels=4,filters=6,size=9,padding=2,dilation=2,layout=nhwc": 2 * 6 * 81 * 4 * 9,
    "conv,channels=8,filters=8,size=7,groups=8": 2 * 8 * 49 * 9,
    "conv,channels=8,filters=8,size=7,groups=8,layout=nhwc": 2 * 8 * 49 * 9,
    "conv,channels=4,filters=6,size=7,stride=2,groups=2": 2 * 6 * 16 * 2 * 9,
    "conv,channels=4,filters=6,size=7,stride=2,groups=2,layout=nhwc": 2 * 6 * 16 * 2 * 9,
    "conv,channels=8,filters=2,size=7,groups=2": 2 * 2 * 49 * 4 * 9,
    "conv,channels=6,filters=2,size=8,stride=2,groups=2,layout=nhwc": 2 * 2 * 16 * 3 * 9,
    "resnet_block,channels=4,filters=4,size=6": 2 * 2 * 4 * 36 * 4 * 9,
    "resnet_block,channels=4,filters=6,size=6,stride=2,layout=nhwc": 2 * 6 * 9 * (4 * 9 + 6 * 9 + 4),
}


def parse(spec):
    name, *pairs = spec.split(",")
    return getattr(convolutions, name)(dict(pair.split("=", 1) for pair in pairs))


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("spec", SPECS)
def test_text_matches_the_oracle(spec):
    (out,), (expected,) = outputs_and_reference(parse(spec))
    assert expected.dtype == np.float64
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("spec", SPECS)
def test_every_convolution_has_a_family_but_for_what_lies_in_no_vector(spec):
    families = {task.tag: family_for(task) for task in partition(parse(spec)).tasks}
    assert all(family is not None for family in families.values()), families


@pytest.mark.parametrize("spec", SPECS)
def test_name_parses_back_and_payload_pickles(spec):
    payload = parse(spec)
    assert payload.name == pickle.loads(pickle.dumps(payload)).name == spec
    assert payload.flops == SPECS[spec]


def test_a_kernel_of_one_place_moves_the_image():
    kernel = np.zeros((1, 1, 3, 3), np.float32)
    kernel[0, 0, 0, 2] = 1  # one row up, one column to the right
    x = random(1, 1, 5, 6)
    (moved,) = convolve(x, kernel, WindowSteps(padding=1))[0]
    np.testing.assert_array_equal(moved[1:, :-1], x[0, 0, :-1, 1:])
    assert not moved[0].any()
    assert not moved[:, -1].any()


def test_a_1x1_convolution_is_a_product_and_groups_are_convolutions_side_by_side():
    x, kernel = random(2, 6, 5, 5), random(4, 3, 1, 1)
    y = convolve(x, kernel, WindowSteps(groups=2))
    for group in range(2):
        product = np.einsum(
            "nchw,fc->nfhw", x[:, 3 * group : 3 * group + 3], kernel[2 * group : 2 * group + 2, :, 0, 0]
        )
        np.testing.assert_allclose(y[:, 2 * group : 2 * group + 2], product, atol=1e-5)


def test_layouts_strides_and_dilations_agree_with_the_whole():
    x, kernel = random(1, 3, 9, 9), random(2, 3, 3, 3)
    whole = convolve(x, kernel, WindowSteps(padding=1))
    np.testing.assert_array_equal(convolve(x, kernel, WindowSteps(2, 1)), whole[:, :, ::2, ::2])
    last = convolve(x.transpose(0, 2, 3, 1), kernel.transpose(2, 3, 1, 0), WindowSteps(padding=1, channels_last=True))
    np.testing.assert_allclose(last.transpose(0, 3, 1, 2), whole, atol=1e-9)
    wide = np.zeros((2, 3, 5, 5), np.float32)
    wide[:, :, ::2, ::2] = kernel
    np.testing.assert_allclose(
        convolve(x, kernel, WindowSteps(dilation=2)), convolve(x, wide, WindowSteps()), atol=1e-9
    )


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.startswith("conv")])
def test_numpy_computes_it_too(spec):
    payload = parse(spec)
    inputs = payload.make_inputs(0)
    (expected,) = payload.reference(**inputs)
    found = RULES["conv"](payload.graph[0], *inputs.values())
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("conv,layout=chwn", "layout must be nchw or nhwc, got 'chwn'; try layout=nchw"),
        ("conv,groups=3", "groups must divide channels, got 3 and 32; try groups=1"),
        ("conv,padding=-1", "padding must be at least 0, got -1; try padding=0"),
        ("conv,size=2,padding=0", "a window must fit into size + 2 padding = 2, it takes 3; try padding=1"),
        (
            "conv,rows=2",
            "parameters of conv are batch, channels, filters, size, kernel, stride, padding, dilation, "
            "groups, layout; got 'rows'; leave it out",
        ),
    ],
)
def test_bad_parameter_is_one_line_with_law_value_and_way_out(spec, message):
    with pytest.raises(PayloadError) as raised:
        parse(spec)
    assert str(raised.value) == message
