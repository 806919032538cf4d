"""The other forms of a library: CMake finds it, an empty environment installs it, ONNX Runtime runs it."""

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from emit_support import NEEDS_LINKER, OURS, agrees, library_of, output_of

from autotune.contrib.emit.cmake_package import write_cmake
from autotune.contrib.emit.onnx_model import write_onnx
from autotune.contrib.emit.wheel import write_wheel

pytestmark = NEEDS_LINKER
PANELS = "matmul,m=16,n=40,k=24,constant_b=1"
CMAKE, UV = shutil.which("cmake"), shutil.which("uv")
PROJECT = """\
cmake_minimum_required(VERSION 3.16)
project(app C CXX)
find_package(autotune_matmul REQUIRED CONFIG)
add_executable(app main.cpp)
target_compile_definitions(app PRIVATE WEIGHTS="${autotune_matmul_WEIGHTS}")
target_link_libraries(app autotune::matmul)
"""
MAIN = """\
#include <autotune_matmul.h>
#include <cstdio>
static float a[16 * 24], c[16 * 40];
int main() {
  autotune_matmul_context *context;
  int status = autotune_matmul_open(&context, WEIGHTS, 0);
  if (status == 0) status = autotune_matmul_run(context, a, c);
  autotune_matmul_close(context);
  std::puts(autotune_matmul_status(status));
  return status;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return library_of(tmp_path_factory.mktemp("library"), PANELS, (OURS,))


@pytest.mark.skipif(CMAKE is None, reason="there is no cmake")
def test_find_package_finds_it(library, tmp_path):
    write_cmake(library, tmp_path / "moved")
    (tmp_path / "moved").rename(tmp_path / "package")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "main.cpp").write_text(MAIN)
    for command in ((CMAKE, "-B", "build", f"-DCMAKE_PREFIX_PATH={tmp_path}/package"), (CMAKE, "--build", "build")):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert output_of(tmp_path / "build" / "app")[0] == "no fault\n"


CALLS = """\
import sys
import autotune_matmul, numpy as np
sys.path.insert(0, "none")
assert not [name for name in sys.modules if name.partition(".")[0] in ("autotune", "mlir", "torch")]
given = np.load("a.npy")
function = autotune_matmul.load()
class Foreign:
    def __dlpack__(self, **options): return given.__dlpack__(**options)
    def __dlpack_device__(self): return given.__dlpack_device__()
np.save("c.npy", function(given))
assert (function(Foreign()) == function(a=np.asfortranarray(given))).all()
odd = np.empty(given.nbytes + 1, "u1")[1:].view("f4").reshape(given.shape)
odd[...] = given
assert (function(odd) == function(given)).all()
for wrong in (given.astype("f8"), given[:3], given.T):
    try:
        function(wrong)
    except (TypeError, ValueError) as error:
        print(error)
try:
    function(given, given)
except TypeError as error:
    print(error)
"""
REFUSED = """\
a must be float32, it is float64
a must be of shape (16, 24), it is (3, 24)
a must be of shape (16, 24), it is (24, 16)
a call takes a; got 2 by order and [] by name
"""


@pytest.mark.skipif(UV is None, reason="there is no uv to make an empty environment with")
def test_the_wheel_is_installed_into_an_environment_with_numpy_alone_and_agrees(library, tmp_path):
    (wheel,) = write_wheel(library, tmp_path)
    environment = tmp_path / "empty"
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, environment], check=True, capture_output=True)
    python = environment / "bin" / "python"
    install = [UV, "pip", "install", "-q", "--offline", "--no-deps", "--python", python, wheel]
    subprocess.run(install, check=True, capture_output=True)
    (site,) = environment.glob("lib/python*/site-packages")
    for part in Path(np.__file__).parents[1].glob("numpy*"):
        (site / part.name).symlink_to(part)
    values = library.payload.make_inputs(0)
    np.save(tmp_path / "a.npy", values["a"])
    done = subprocess.run([python, "-I", "-c", CALLS], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (REFUSED, "")
    (expected,) = library.payload.reference(**values)
    np.testing.assert_allclose(np.load(tmp_path / "c.npy"), expected, atol=1e-4)


def session_of(folder, library):
    """The emitted model in ONNX Runtime."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    shared, model = write_onnx(library, folder)
    options = runtime.SessionOptions()
    options.register_custom_ops_library(str(shared))
    return runtime.InferenceSession(str(model), options)


def test_onnx_runtime_runs_it_in_several_threads(library, tmp_path):
    shutil.copy(library.weights.path, tmp_path)
    session = session_of(tmp_path, library)
    right = []

    def call():
        right.append(all(agrees(lambda a: session.run(None, {"a": a})[0], library.payload) for _ in range(20)))

    both = [threading.Thread(target=call) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert right == [True, True]


def test_an_operator_in_a_model_of_ones_own_refuses_other_shapes(library, tmp_path):
    runtime, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    shutil.copy(library.weights.path, tmp_path)
    shared, path = write_onnx(library, tmp_path)
    model = onnx.load(path)
    for value in (model.graph.input[0], model.graph.output[0]):
        for axis, size in enumerate(value.type.tensor_type.shape.dim):
            size.dim_param = f"any_{axis}_{value.name}"
    options = runtime.SessionOptions()
    options.register_custom_ops_library(str(shared))
    session = runtime.InferenceSession(model.SerializeToString(), options)
    assert agrees(lambda a: session.run(None, {"a": a})[0], library.payload)
    for shape in ((1, 1), (24, 16), (16, 25)):
        with pytest.raises(Exception, match="a must be of a shape that the operator takes, it is not"):
            session.run(None, {"a": np.zeros(shape, "f4")})


def test_onnx_runtime_says_what_the_library_refuses(library, tmp_path):
    with pytest.raises(Exception, match="the weights file must be readable, it is not"):
        session_of(tmp_path, library)


def test_states_go_in_and_come_out_of_onnx_runtime(tmp_path):
    from autotune.core.payload import Argument, Payload

    text = """
func.func @step(%x: memref<4xf32>, %s: memref<4xf32>) {
  %a = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  %b = bufferization.to_tensor %s restrict writable : memref<4xf32> to tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.add ins(%a, %b : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  bufferization.materialize_in_destination %r in restrict writable %s : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}
"""
    arguments = (Argument("x", "input", (4,)), Argument("s", "state", (4,)))
    library = library_of(tmp_path, Payload("step", text, "step", arguments), (OURS,))
    session = session_of(tmp_path, library)
    before = np.ones(4, "f4")
    (after,) = session.run(["s_after"], {"x": np.arange(4, dtype="f4"), "s": before})
    assert after.tolist() == [1, 2, 3, 4]
    assert before.tolist() == [1, 1, 1, 1]
