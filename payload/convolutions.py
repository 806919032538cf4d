"""Payloads of convolutions: one, and a block of a residual network; called with the parameters of a spec.

``layout=nchw`` has channels first, as PyTorch and ONNX do; ``layout=nhwc`` last, as TensorFlow does.
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
SIDE = 3  # of the kernels of a block


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

    Each has a bias: batch norm is part of both. Where `stride` or `filters` change the shape, a 1x1 convolution goes
    past.
    """
    sizes, last = read("resnet_block", parameters, RESNET_BLOCK)
    channels, filters, stride = sizes["channels"], sizes["filters"], sizes["stride"]
    net = ConvNetwork(sizes["batch"], last)
    x = net.argument("x", "input", net.image(channels, sizes["size"]))
    first = net.convolve(x, "first", filters, SIDE, WindowSteps(stride, 1, channels_last=last), bias=True)
    hidden = net.op("relu", first)
    second = net.convolve(hidden, "second", filters, SIDE, WindowSteps(1, 1, channels_last=last), bias=True)
    past = x
    if stride > 1 or filters != channels:
        past = net.convolve(x, "past", filters, 1, WindowSteps(stride, channels_last=last), bias=True)
    net.op("relu", net.op("add", second, past), name="out")
    oracle = partial(conv_reference.resnet_block, stride=stride, channels_last=last)
    return net.finish("resnet_block", {**sizes, "layout": LAYOUTS[last]}, RESNET_BLOCK, oracle)


@dataclass
class ConvNetwork:
    """A payload of convolutions under construction.

    Attributes:
        batch: Images.
        last: Whether channels are last.
        arguments: Arguments so far.
        shapes: Shape of every value.
        writer: Ops so far.
        flops: Multiplications and additions of the convolutions so far; products with padding count.
        longest: Terms of their longest sum.
    """

    batch: int
    last: bool
    arguments: list[Argument] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    writer: GraphWriter = field(default_factory=GraphWriter)
    flops: float = 0.0
    longest: int = 1

    def image(self, channels: int, rows: int, columns: int = 0) -> Shape:
        """Shape of images; square ones without `columns`."""
        spatial = (rows, columns or rows)
        return (self.batch, *spatial, channels) if self.last else (self.batch, channels, *spatial)

    def argument(self, name: str, role: str, shape: Shape) -> str:
        """Declare an argument; give its name."""
        self.arguments.append(Argument(name, role, shape))
        self.shapes[name] = shape
        return name

    def op(self, op: str, *inputs: str, name: str = "", **attributes: float) -> str:
        """Add an op that keeps the shape of what it reads first; give the name of its output."""
        found = self.writer.op(op, *inputs, shape=self.shapes[inputs[0]], name=name, **attributes)
        self.shapes[found] = self.shapes[inputs[0]]
        return found

    def convolve(
        self, x: str, stem: str, filters: int, side: int, steps: WindowSteps, *, bias: bool = False, name: str = ""
    ) -> str:
        """Add a convolution, and its weights; give the name of its output.

        Raises:
            PayloadError: Groups divide no channels, or a window is larger than an image.
        """
        shape = self.shapes[x]
        channels, size = shape[3 if self.last else 1], shape[2]
        for what, count in (("channels", channels), ("filters", filters)):
            if count % steps.groups:
                raise PayloadError(f"groups must divide {what}, got {steps.groups} and {count}; try groups=1")
        windows = steps.windows(size, side)
        if windows < 1:
            raise PayloadError(
                f"a window must fit into size + 2 padding = {size + 2 * steps.padding}, "
                f"it takes {steps.dilation * (side - 1) + 1}; try padding={side // 2 * steps.dilation}"
            )
        mine = channels // steps.groups
        kernel = (side, side, mine, filters) if self.last else (filters, mine, side, side)
        reads = [x, self.argument(stem, "weight", kernel)]
        if bias:
            reads.append(self.argument(f"{stem}_bias", "weight", (filters,)))
        given = self.image(filters, windows)
        numbers = {"stride": steps.stride, "padding": steps.padding, "dilation": steps.dilation, "groups": steps.groups}
        found = self.writer.op("conv", *reads, shape=given, name=name, **numbers, channels_last=self.last)
        self.shapes[found] = given
        terms = mine * side * side
        self.flops += 2 * prod(given) * terms
        self.longest = max(self.longest, terms)
        return found

    def finish(
        self, kernel: str, values: Mapping[str, object], defaults: Mapping[str, int], oracle: Callable[..., Doubles]
    ) -> Payload:
        """The payload, whose output is the last value."""
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
    """Sizes, and whether channels are last.

    Raises:
        PayloadError: A parameter is unknown, not a whole number, or out of range.
    """
    layout = parameters.get("layout", LAYOUTS[0])
    if layout not in LAYOUTS:
        raise PayloadError(f"layout must be {' or '.join(LAYOUTS)}, got {layout!r}; try layout={LAYOUTS[0]}")
    check_known(payload, parameters, {**defaults, "layout": LAYOUTS[0]})
    sizes = read_numbers(payload, {name: text for name, text in parameters.items() if name != "layout"}, defaults)
    for name, size in sizes.items():
        check_size(name, size, least=0 if name == "padding" else 1)
    return sizes, layout == LAYOUTS[1]
