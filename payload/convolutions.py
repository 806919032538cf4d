"""Convolution payloads: a single convolution and a block of a residual network, built from the parameters of a spec.

``layout=nchw`` has channels first, as in PyTorch and ONNX; ``layout=nhwc`` has channels last, as in TensorFlow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod

from autotune.core.errors import PayloadError
from autotune.core.ops.graph import GraphWriter, Shape
from autotune.core.payload import Argument, Payload
from payload import conv_reference
from payload.config import check_known, check_size, read_numbers, with_parameters
from payload.convolution import WindowSteps
from payload.kernels import make
from payload.reference import Doubles

LAYOUTS = ("nchw", "nhwc")
CONV = {
    "batch": 1,
    "channels": 32,
    "filters": 64,
    "size": 56,
    "kernel": 3,
    "stride": 1,
    "padding": 1,
    "dilation": 1,
    "groups": 1,
}
RESNET_BLOCK = {"batch": 1, "channels": 64, "filters": 64, "size": 56, "stride": 1}
SIDE = 3  # kernel size of the block's convolutions


@with_parameters({**CONV, "layout": LAYOUTS[0]})
def conv(parameters: dict[str, str]) -> Payload:
    """A convolution of `batch` images of `size` x `size`; by default 3x3 over 32 channels of 56x56, into 64.

    The kernel is a weight, ``(filters, channels / groups, kernel, kernel)``; with channels last it is
    ``(kernel, kernel, channels / groups, filters)``.
    """
    sizes, last = read("conv", parameters, CONV)
    net = ConvNetwork(sizes["batch"], last)
    x = net.argument("x", "input", net.image(sizes["channels"], sizes["size"]))
    steps = WindowSteps(sizes["stride"], sizes["padding"], sizes["dilation"], sizes["groups"], last)
    net.convolve(x, "kernel", sizes["filters"], sizes["kernel"], steps, name="out")
    return net.finish("conv", {**sizes, "layout": LAYOUTS[last]}, CONV, partial(conv_reference.convolve, steps=steps))


@with_parameters({**RESNET_BLOCK, "layout": LAYOUTS[0]})
def resnet_block(parameters: dict[str, str]) -> Payload:
    """Two 3x3 convolutions and what goes past them, ``relu(conv(relu(conv(x))) + x)``; 64 channels of 56x56 by default.

    Each has a bias, since batch norm is folded into both. Where `stride` or `filters` change the shape, the shortcut is
    a 1x1 convolution.
    """
    sizes, last = read("resnet_block", parameters, RESNET_BLOCK)
    channels, filters, stride = sizes["channels"], sizes["filters"], sizes["stride"]
    net = ConvNetwork(sizes["batch"], last)
    x = net.argument("x", "input", net.image(channels, sizes["size"]))
    first = net.convolve(x, "first", filters, SIDE, WindowSteps(stride, 1, channels_last=last), bias=True)
    hidden = net.op("relu", first)
    second = net.convolve(hidden, "second", filters, SIDE, WindowSteps(1, 1, channels_last=last), bias=True)
    shortcut = x
    if stride > 1 or filters != channels:
        shortcut = net.convolve(x, "past", filters, 1, WindowSteps(stride, channels_last=last), bias=True)
    net.op("relu", net.op("add", second, shortcut), name="out")
    oracle = partial(conv_reference.resnet_block, stride=stride, channels_last=last)
    return net.finish("resnet_block", {**sizes, "layout": LAYOUTS[last]}, RESNET_BLOCK, oracle)


@dataclass
class ConvNetwork:
    """Convolution payload under construction.

    Attributes:
        batch: Number of images.
        last: Whether channels are last.
        arguments: Arguments so far.
        shapes: Shapes of all values, by name.
        writer: Ops so far.
        flops: Multiplications and additions of the convolutions so far, including those with padding.
        longest: Number of terms of their longest sum.
    """

    batch: int
    last: bool
    arguments: list[Argument] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    writer: GraphWriter = field(default_factory=GraphWriter)
    flops: float = 0.0
    longest: int = 1

    def image(self, channels: int, rows: int, columns: int = 0) -> Shape:
        """Return the shape of a batch of images; images are square if `columns` is 0."""
        spatial = (rows, columns or rows)
        return (self.batch, *spatial, channels) if self.last else (self.batch, channels, *spatial)

    def argument(self, name: str, role: str, shape: Shape) -> str:
        """Declare an argument and return its name."""
        self.arguments.append(Argument(name, role, shape))
        self.shapes[name] = shape
        return name

    def op(self, op: str, *inputs: str, name: str = "", **attributes: float) -> str:
        """Add an op whose result has the shape of its first input; return the name of the result."""
        result = self.writer.op(op, *inputs, shape=self.shapes[inputs[0]], name=name, **attributes)
        self.shapes[result] = self.shapes[inputs[0]]
        return result

    def convolve(
        self, x: str, stem: str, filters: int, side: int, steps: WindowSteps, *, bias: bool = False, name: str = ""
    ) -> str:
        """Add a convolution and its weights; return the name of its output.

        Raises:
            PayloadError: Groups do not divide the channels or filters, or a window is larger than a padded image.
        """
        shape = self.shapes[x]
        channels, size = shape[3 if self.last else 1], shape[2]
        for count_name, count in (("channels", channels), ("filters", filters)):
            if count % steps.groups:
                raise PayloadError(f"groups must divide {count_name}, got {steps.groups} and {count}; try groups=1")
        windows = steps.windows(size, side)
        if windows < 1:
            raise PayloadError(
                f"a window must fit into size + 2 padding = {size + 2 * steps.padding}, "
                f"it takes {steps.dilation * (side - 1) + 1}; try padding={side // 2 * steps.dilation}"
            )
        depth = channels // steps.groups
        kernel = (side, side, depth, filters) if self.last else (filters, depth, side, side)
        reads = [x, self.argument(stem, "weight", kernel)]
        if bias:
            reads.append(self.argument(f"{stem}_bias", "weight", (filters,)))
        result_shape = self.image(filters, windows)
        window = {"stride": steps.stride, "padding": steps.padding, "dilation": steps.dilation, "groups": steps.groups}
        result = self.writer.op("conv", *reads, shape=result_shape, name=name, **window, channels_last=self.last)
        self.shapes[result] = result_shape
        terms = depth * side * side
        self.flops += 2 * prod(result_shape) * terms
        self.longest = max(self.longest, terms)
        return result

    def finish(
        self, kernel: str, values: Mapping[str, object], defaults: Mapping[str, int], oracle: Callable[..., Doubles]
    ) -> Payload:
        """Return the payload; its output is the last value."""
        (out,) = self.writer.nodes[-1].outputs
        return make(
            kernel,
            values,
            defaults={**defaults, "layout": LAYOUTS[0]},
            arguments=(*self.arguments, Argument(out[0], "output", out[1])),
            graph=self.writer.graph,
            oracle=oracle,
            flops=self.flops,
            reduction=self.longest,
        )


def read(payload: str, parameters: Mapping[str, str], defaults: Mapping[str, int]) -> tuple[dict[str, int], bool]:
    """Parse the sizes, and whether channels are last.

    Raises:
        PayloadError: A parameter is unknown, not an integer, or out of range.
    """
    layout = parameters.get("layout", LAYOUTS[0])
    if layout not in LAYOUTS:
        raise PayloadError(f"layout must be {' or '.join(LAYOUTS)}, got {layout!r}; try layout={LAYOUTS[0]}")
    check_known(payload, parameters, {**defaults, "layout": LAYOUTS[0]})
    sizes = read_numbers(payload, {name: text for name, text in parameters.items() if name != "layout"}, defaults)
    for name, size in sizes.items():
        check_size(name, size, least=0 if name == "padding" else 1)
    return sizes, layout == LAYOUTS[1]
