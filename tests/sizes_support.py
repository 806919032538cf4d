"""Small models of any size for tests."""

import numpy as np
from model_zoo import FLOAT, INT64, helper, numpy_helper, save, weight

from autotune.contrib.sizes.calls import candidate_of
from autotune.contrib.sizes.folder import CompiledSize, SizedModel
from autotune.contrib.sizes.grains import OpenProgram, grain_of
from autotune.contrib.sizes.making import import_size
from autotune.contrib.sizes.proof import Dim

LOW = np.float32(-3e38)
CLOSE = {"rtol": 1e-4, "atol": 5e-5}  # scores are as large as 50, and an exponential of one is off by as many roundings
WIDTH, HEADS, LONGEST = 32, 2, 256
RNG = np.random.default_rng(0)
WEIGHTS = {f"w{name}": RNG.uniform(-0.5, 0.5, (WIDTH, WIDTH)).astype(np.float32) for name in "qkv"}


def attention(path, mask="mask"):
    """One head over tokens whose mask hides some."""
    width = 16
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"])]
    nodes += [helper.make_node("MatMul", ["x", f"w{name}"], [name]) for name in "qkv"]
    nodes += [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Cast", [mask], ["shown"], to=FLOAT),
        helper.make_node("Sub", ["one", "shown"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "low"], ["lows"]),
        helper.make_node("Unsqueeze", ["lows", "axis"], ["bias"]),
        helper.make_node("Add", ["scores", "bias"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]
    held = {"one": np.float32(1), "low": LOW, "axis": np.array([1])}
    weights = [weight("table", 50, width), *(weight(f"w{name}", width, width) for name in "qkv")]
    weights += [numpy_helper.from_array(np.asarray(array), name) for name, array in held.items()]
    inputs = [(name, INT64, ["batch", "tokens"]) for name in ("ids", mask)]
    return save(path, nodes, inputs, [("y", FLOAT, ["batch", "tokens", width])], *weights)


def request(rng, batch, tokens):
    ids, mask = rng.integers(0, 50, (batch, tokens)), rng.integers(0, 2, (batch, tokens))
    mask[:, int(rng.integers(tokens))] = 1
    return {"ids": ids, "mask": mask}


def heads(path):
    """Attention of rows among themselves in two heads, whose mask hides some."""
    nodes = [helper.make_node("MatMul", ["x", f"w{name}"], [f"flat {name}"]) for name in "qkv"]
    nodes += [helper.make_node("Reshape", [f"flat {name}", "heads"], [f"rows {name}"]) for name in "qkv"]
    orders = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
    nodes += [helper.make_node("Transpose", [f"rows {name}"], [name], perm=perm) for name, perm in orders.items()]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Sub", ["one", "mask"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "low"], ["lows"]),
        helper.make_node("Unsqueeze", ["lows", "axes"], ["bias"]),
        helper.make_node("Add", ["scores", "bias"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "joined"], ["y"]),
    ]
    held = {"one": np.float32(1), "low": np.float32(-3e38), "axes": np.array([1, 2])}
    held |= {"heads": np.array([0, 0, HEADS, WIDTH // HEADS]), "joined": np.array([0, 0, WIDTH])}
    weights = [numpy_helper.from_array(np.asarray(array), name) for name, array in (held | WEIGHTS).items()]
    shape = ["batch", "tokens", WIDTH]
    return save(path, nodes, [("x", FLOAT, shape), ("mask", FLOAT, shape[:2])], [("y", FLOAT, shape)], *weights)


def shortened_heads(folder):
    """The model of `heads` at one size, whose loops end where a request does."""
    size = {"batch": 1, "tokens": LONGEST}
    payload = import_size(heads(folder / "heads.onnx"), folder, size)
    dims = (
        Dim("batch", 1, 4, pad=True, split=True, results=(0,)),
        Dim("tokens", 1, LONGEST, pad=True, results=(1,), masks=("mask",)),
    )
    axes = {"x": {"batch": 0, "tokens": 1}, "mask": {"batch": 0, "tokens": 1}}
    grain = grain_of(OpenProgram.of(payload, candidate_of(folder, size, payload)[0], dims[1], axes, LONGEST))
    return SizedModel("heads.onnx", "0" * 64, dims, axes, (CompiledSize(size, 1.0, grain),))


def in_numpy(x, mask):
    """What attention is, in float64."""
    x = x.astype(np.float64)
    split = (*x.shape[:2], HEADS, WIDTH // HEADS)
    q, k, v = ((x @ WEIGHTS[f"w{name}"]).reshape(split).swapaxes(1, 2) for name in "qkv")
    scores = q @ k.swapaxes(2, 3) + np.where(mask, 0, -np.inf)[:, None, None]
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return (shares / shares.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(x.shape)
