"""NumPy reference of `payload.convolutions` in float64, independent of the emitted MLIR."""

import numpy as np

from payload.convolution import WindowSteps
from payload.reference import Array, Doubles, double

FIRST, LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # permutations NHWC to NCHW, and NCHW to NHWC
KERNEL_FIRST = (3, 2, 0, 1)


def convolve(x: Array, kernel: Array, steps: WindowSteps, bias: Array | None = None) -> Doubles:
    """Convolve x with a kernel: ``y[n, f, h, w]``; with channels last ``y[n, h, w, f]``."""
    x, kernel = double(x), double(kernel)
    if steps.channels_last:
        x, kernel = x.transpose(FIRST), kernel.transpose(KERNEL_FIRST)
    zeros = (steps.padding, steps.padding)
    reach = steps.dilation * (kernel.shape[-1] - 1) + 1
    padded = np.pad(x, ((0, 0), (0, 0), zeros, zeros))
    every = np.lib.stride_tricks.sliding_window_view(padded, (reach, reach), axis=(2, 3))
    windows = every[:, :, :: steps.stride, :: steps.stride, :: steps.dilation, :: steps.dilation]  # n c h w i j
    parts = zip(np.split(windows, steps.groups, axis=1), np.split(kernel, steps.groups), strict=True)
    y = np.concatenate([np.einsum("nchwij,fcij->nfhw", part, w, optimize=True) for part, w in parts], axis=1)
    if bias is not None:
        y = y + double(bias)[:, None, None]
    return double(y.transpose(LAST) if steps.channels_last else y)


def resnet_block(stride: int, channels_last: bool, *, x: Array, **weights: Array) -> Doubles:
    """Compute ``relu(conv(relu(conv(x))) + x)``; x is replaced by its 1x1 convolution where there is one."""
    first, second = (WindowSteps(each, 1, channels_last=channels_last) for each in (stride, 1))
    hidden = np.maximum(convolve(x, weights["first"], first, weights["first_bias"]), 0)
    y = convolve(hidden, weights["second"], second, weights["second_bias"])
    shortcut = double(x)
    if "past" in weights:
        shortcut = convolve(x, weights["past"], WindowSteps(stride, channels_last=channels_last), weights["past_bias"])
    return double(np.maximum(y + shortcut, 0))
