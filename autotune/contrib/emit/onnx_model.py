"""`--as onnx`: a model of a single node, an ONNX Runtime operator implemented by the library beside it."""

from pathlib import Path

from autotune.contrib.emit.c_library import write_library
from autotune.contrib.emit.c_source import SharedLibrary
from autotune.core.errors import BundleError
from autotune.core.host.extras import install_command
from autotune.core.host.whole_file import whole_file

DOMAIN = "autotune"
# ids of ONNX's TensorProto.DataType
TYPES = {"f32": 1, "i8": 3, "i32": 6, "i64": 7, "f16": 10, "f64": 11, "bf16": 16}
READ, WRITTEN = ("input", "state"), ("state", "output")
OPSET, IR_VERSION = 17, 8  # of ONNX Runtime 1.16, the oldest that loads the library
AFTER = "_after"  # suffix of a state's value after a call


def write_onnx(library: SharedLibrary, output: Path) -> list[Path]:
    """Write a library that registers an operator, and a model that consists of that operator.

    Inputs are the payload's inputs and states; outputs are its states after the call and its outputs. Weights stay in
    their file, which the library looks for in its own folder.

    Raises:
        BundleError: Package ``onnx`` is not installed, there is no compiler, or it fails.
    """
    try:
        import onnx
    except ImportError as error:
        raise BundleError(
            f"--as onnx writes a model with the package onnx, it is not installed; {install_command('import')}"
        ) from error
    inputs = [(a, name) for a, name in library.call_arguments if a.role in READ]
    outputs = [
        (a, name + AFTER if a.role == "state" else name) for a, name in library.call_arguments if a.role in WRITTEN
    ]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(library.name, [n for _, n in inputs], [n for _, n in outputs], domain=DOMAIN)],
        library.name,
        [info(name, TYPES[a.dtype], library.shape(a)) for a, name in inputs],
        [info(name, TYPES[a.dtype], library.shape(a)) for a, name in outputs],
    )
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid(DOMAIN, 1)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, doc_string=library.about)
    path = output / f"{library.name}.onnx"
    shared = write_library(library, output, (ports_text(library), "onnx.c"), ("RegisterCustomOps",))
    with whole_file(path) as fresh:
        onnx.save(model, str(fresh))
    return [shared, path]


def ports_text(library: SharedLibrary) -> str:
    """Return a C table of the arrays that are inputs and outputs of the operator."""
    names = {argument.name: (number, name) for number, (argument, name) in enumerate(library.call_arguments)}
    rows = []
    for is_output, roles in enumerate((READ, WRITTEN)):
        arguments = [argument for argument in library.payload.arguments if argument.role in roles]
        for i, a in enumerate(arguments):
            number, name = names[a.name]
            rows.append(f'  {{{number}, {is_output}, {i}, {TYPES[a.dtype]}, "{name}"}},\n')
    weights = library.weights.path.name if library.weights else ""
    return f"""\
struct port {{
  int array, is_output;
  size_t index;
  int type; /* ONNX's TensorProto.DataType */
  const char *name;
}};

#define OPERATOR "{library.name}"
#define DOMAIN_NAME "{DOMAIN}"
#define WEIGHTS_NAME "{weights}"
#define PORTS {len(rows)}
static const struct port ports[] = {{
{"".join(rows)}}};

"""
