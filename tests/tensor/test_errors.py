"""What cannot be is told at the line that writes it, with shapes; nothing is compiled for it."""

import subprocess
import sys
import traceback

import numpy as np
import pytest

import autotune.tensor as T

MATRIX, ROWS, WHOLE = T.zeros((2, 3)), T.zeros((4,)), T.zeros((2, 3), dtype=T.int32)
FLAG = T.zeros((2, 3), dtype=T.bool)
REFUSED = {
    "shapes of add must broadcast, (2, 3), (4,) do not": lambda: MATRIX + ROWS,
    "operands of add must be of one kind, real, whole or bool, they are float32, int32": lambda: MATRIX + WHOLE,
    "a number beside int32 in add must be of that kind, got 1.5": lambda: WHOLE + 1.5,
    "a number beside int32 in multiply must fit it, got 4294967296": lambda: WHOLE * 2**32,
    "a number beside bool in add must be of that kind, got 1": lambda: FLAG + 1,
    "operands of add must be numbers, they are bool": lambda: FLAG + FLAG,
    "operands of divide must be real, they are int32": lambda: WHOLE / WHOLE,
    "operands of exp must be real, they are int32": lambda: T.exp(WHOLE),
    "operands of pow must be real or whole, both, got int32, float32": lambda: T.pow(WHOLE, MATRIX),
    "a condition must be bool, it is float32": lambda: T.where(MATRIX, 1, MATRIX),
    "operands of add must be tensors, arrays or numbers, got str": lambda: T.add(MATRIX, "one"),
    "operands of maximum must be tensors, arrays or numbers, got int": lambda: T.maximum(1, 2),
    "axis of sum must be from -2 to 1, got 2": lambda: MATRIX.sum(2),
    "axes of sum must differ, got (0, -2)": lambda: T.sum(MATRIX, (0, -2)),
    "axis of sum must be a whole number, got 0.5": lambda: T.sum(MATRIX, 0.5),
    "sum must be of numbers, got bool": lambda: T.sum(FLAG),
    "mean must be of real numbers, got int32": lambda: T.mean(WHOLE),
    "max must be of one element or more, shape (0, 3) has none along axis 0": lambda: T.zeros((0, 3)).max(0),
    "matmul must sum over equal sizes, shapes are (2, 3) and (2, 3): 3 and 2": lambda: MATRIX @ MATRIX,
    "operands of matmul must have 1 dimension or more, shapes are (2, 3) and ()": lambda: T.matmul(MATRIX, T.ones(())),
    "a shape must hold 6 elements of shape (2, 3), (4, -1) does not": lambda: MATRIX.reshape(4, -1),
    "a shape for zeros must be whole numbers, got (2.5,)": lambda: T.zeros((2.5,)),
    "sizes of full must not be negative, got (-1,)": lambda: T.full((-1,), 0.0),
    "shape (4,) must broadcast to (2, 3), it does not": lambda: T.broadcast_to(ROWS, (2, 3)),
    "shapes of concat must be equal but for axis 0, they are (2, 3), (4,)": lambda: T.concat([MATRIX, ROWS]),
    "tensors to concat must be one or more, got none": lambda: T.concat([]),
    "axes must name each of 2 axes once, got (0, 0) of shape (2, 3)": lambda: T.permute_dims(MATRIX, (0, 0)),
    "axes that squeeze drops must have size 1, 0 of shape (2, 3) has not": lambda: T.squeeze(MATRIX, 0),
    "an index of axis 1 of shape (2, 3) must be from -3 to 2, got 3": lambda: MATRIX[0, 3],
    "an index of shape (2, 3) must name 2 axes or fewer, it names 3": lambda: MATRIX[0, 0, 0],
    "an index must be whole numbers, got 'a'": lambda: MATRIX["a"],
    "the step of a slice must not be 0": lambda: MATRIX[::0],
    "an index must not be a mask": lambda: MATRIX[FLAG],
    "an index beside indices must be whole numbers or indices, got slice": lambda: MATRIX[WHOLE, :],
    "indices to take from 2 elements must be from -2 to 1, got 2": lambda: T.take(MATRIX, np.array([0, 2]), axis=0),
    "indices to take must be whole numbers, they are float32": lambda: T.take(MATRIX, ROWS, axis=0),
    "a tensor must not be written": lambda: MATRIX.__setitem__(0, 1.0),
    ".T must be of a matrix, shape is (4,)": lambda: ROWS.T,
    "dtype must be one of float32, bfloat16, int32, int64, bool; got float64": lambda: T.asarray(np.zeros(2)),
    "dtype must be one of float32, bfloat16, int32, int64, bool; got f99": lambda: MATRIX.astype("f99"),
    "elements must be numbers": lambda: T.asarray(["a"]),
    "rows of an array must be equally long": lambda: T.asarray([[1.0], [1.0, 2.0]]),
    "gain of layer_norm must have shape (3,), it has (4,)": lambda: T.layer_norm(MATRIX, ROWS),
    "conv2d must have images (N, C, H, W)": lambda: T.conv2d(MATRIX, MATRIX),
    "a window of conv2d must fit the image": lambda: T.conv2d(T.zeros((1, 1, 2, 2)), T.zeros((1, 1, 3, 3))),
    "conv2d must have as many channels as filters read, in 2 groups": lambda: T.conv2d(
        T.zeros((1, 3, 4, 4)), T.zeros((2, 1, 3, 3)), groups=2
    ),
    "stride of conv2d must be 1 or more, got 0": lambda: T.conv2d(
        T.zeros((1, 1, 4, 4)), T.zeros((1, 1, 3, 3)), stride=0
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_refused_where_it_is_written(message):
    wrong = REFUSED[message]
    with pytest.raises(T.TensorError) as raised:
        wrong()
    place, _, said = str(raised.value).partition(": ")
    assert said.startswith(message)
    assert "\n" not in said
    name, line = place.split(":")
    assert name == "test_errors.py"
    first = wrong.__code__.co_firstlineno
    assert first <= int(line) <= first + 2
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert any(frame.filename == __file__ and frame.lineno == int(line) for frame in frames)


DECISIONS = {
    "bool()": bool,
    "if": lambda x: x if x.sum() > 0 else -x,
    "while": lambda x: [None for _ in iter(lambda: not x, False)],
    "int()": int,
    "float()": float,
    "in": lambda x: 1.0 in x,
    "range": range,
    "and": lambda x: (x > 0) and (x < 1),
}


@pytest.mark.parametrize("decide", DECISIONS.values(), ids=DECISIONS)
@pytest.mark.parametrize("compiled", [False, True])
def test_control_flow_that_depends_on_elements_is_one_clear_error(decide, compiled):
    x = np.ones((2, 3), np.float32)
    with pytest.raises(
        T.TensorError, match=r"control flow can depend on elements; use where, or \.numpy\(\)"
    ) as raised:
        T.compile(decide)(x) if compiled else decide(T.asarray(x))
    assert str(raised.value).startswith("test_errors.py:")


def test_errors_are_those_of_python_too():
    with pytest.raises(ValueError, match="must broadcast"):
        MATRIX + ROWS
    with pytest.raises(TypeError, match="of one kind"):
        MATRIX + WHOLE
    with pytest.raises(IndexError, match="must be from -2 to 1"):
        MATRIX[2]
    with pytest.raises(TypeError, match="unsupported operand"):
        MATRIX + "one"


def test_argument_of_a_traced_function_has_no_elements_yet():
    with pytest.raises(T.TensorError, match=r"test_errors.py:\d+: elements must be known"):
        T.compile(lambda x: T.asarray(x.numpy()))(np.ones(3, np.float32))


def test_compiled_function_refuses_what_is_no_array():
    double = T.compile(lambda x: x + x)
    with pytest.raises(T.TensorError, match=r"test_errors.py:\d+: argument 0 must be an array or a number, got list"):
        double([1.0])
    with pytest.raises(T.TensorError, match=r"dtype must be one of .*; got float64"):
        double(np.ones(3))
    with pytest.raises(
        T.TensorError, match=r"test_errors.py:\d+: a compiled function must return tensors, it returned int"
    ):
        T.compile(lambda x: 1)(np.ones(3, np.float32))


def test_writing_a_graph_imports_no_compiler():
    program = "import sys, autotune.tensor as T; T.ones((2, 3)) @ T.ones((3,)); print('mlir' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
