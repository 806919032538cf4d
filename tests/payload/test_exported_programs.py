"""Programs of torch.export become payloads whose default schedules agree with PyTorch in float64."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from bundle_support import no_care

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from autotune.bundles.call import compile_payload  # noqa: E402
from autotune.compiler.tasks.partition import partition  # noqa: E402
from autotune.core.evaluator import Job  # noqa: E402
from autotune.core.host.machine import this_machine  # noqa: E402
from autotune.tuning.candidates import default_candidate  # noqa: E402
from autotune.worker.loading.importing import import_model  # noqa: E402
from autotune.worker.loading.reading import open_payload  # noqa: E402
from autotune.worker.worker import Worker  # noqa: E402
from payload import zoo  # noqa: E402
from payload.importers.pt2_convert import buffers_of  # noqa: E402
from payload.importers.pt2_softmax import write_guards  # noqa: E402
from payload.importers.pt2_values import compute, fold_constants  # noqa: E402

pytestmark = pytest.mark.usefixtures("warm_program_converters")


class Residual(nn.Module):
    """Convolutions with batch norm, and what goes past them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, 1, 1), nn.BatchNorm2d(8))

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + x).mean((2, 3))


class Embedded(nn.Module):
    """Integers that are places, a layer norm, partial sums, and two results."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)

    def forward(self, ids):
        rows = self.norm(self.table(ids))
        return torch.cumsum(rows, 1), rows.argmax(-1)


MODELS = {
    "linear": lambda: (nn.Sequential(nn.Linear(20, 24), nn.GELU(), nn.Linear(24, 10)), torch.randn(8, 20)),
    "gelu by tanh": lambda: (nn.Sequential(nn.Linear(20, 24), nn.GELU(approximate="tanh")), 3 * torch.randn(8, 20)),
    "residual": lambda: (Residual(), torch.randn(1, 8, 10, 10)),
    "embedded": lambda: (Embedded(), torch.zeros(1, 12, dtype=torch.int64)),
    "half": lambda: (nn.Sequential(nn.Linear(20, 24), nn.ReLU()).half(), torch.randn(8, 20).half()),
    "bfloat": lambda: (nn.Sequential(nn.Linear(20, 24), nn.ReLU()).bfloat16(), torch.randn(8, 20).bfloat16()),
}

OPEN = {"linear": (0,)}  # axes that are exported open, and imported at the size of the example

SMALL = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2}
NAMED = {  # models of the zoo, at small sizes
    "bert": lambda: zoo.bert(16, num_attention_heads=2, intermediate_size=64, **SMALL),
    "gpt2": lambda: zoo.gpt2(16, n_embd=32, n_layer=2, n_head=2, vocab_size=60),
    "llama": lambda: zoo.llama(16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, **SMALL),
}


@pytest.fixture(scope="module")
def worker():
    with no_care(), Worker() as running:
        yield running


def imported(folder, model, example, open_axes=()):
    path, axes = folder / "model.pt2", dict.fromkeys(open_axes, torch.export.Dim.DYNAMIC)
    program = torch.export.export(model.eval(), (example,), dynamic_shapes=(axes,) if axes else None)
    torch.export.save(program, path)
    (name,) = program.graph_signature.user_inputs
    import_model(",".join([str(path), *(f"{name}.{axis}={example.shape[axis]}" for axis in axes)]), folder / "model")
    return open_payload(str(folder / "model"))


def agree(payload, worker):
    machine = this_machine()
    job = Job(payload, (default_candidate(partition(payload), machine),), machine)
    (found,) = worker.evaluate(job)
    assert found.samples is not None, f"{found.outcome}: {found.diagnostic}"


@pytest.mark.parametrize("name", MODELS)
def test_a_program_agrees_with_pytorch_by_default_configs(name, tmp_path, worker):
    torch.manual_seed(0)
    agree(imported(tmp_path, *MODELS[name](), OPEN.get(name, ())), worker)


@pytest.mark.parametrize("name", NAMED)
def test_a_model_of_hugging_face_has_its_attention_found_and_its_weights_packed(name, tmp_path, worker):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    model, (example,) = NAMED[name]()
    payload = imported(tmp_path, model, example)
    tasks = partition(payload).tasks
    assert sum(task.count for task in tasks if len(task.contractions) == 2) == 2
    plain = [c for task in tasks for c in task.contractions if len(task.contractions) == 1]
    assert plain
    assert all(c.constant_b for c in plain)
    agree(payload, worker)


class Divided(nn.Module):
    def forward(self, x, by):
        return x // by, (x % by).float().mean(1)


class Kept(nn.Module):
    """A cache whose rows are written at places that are given."""

    def forward(self, cache, places, rows):
        return cache.index_put((places,), rows) * 2


WHOLE = {  # models of whole numbers that cannot be random, and examples
    "divided": lambda: (Divided(), (torch.arange(-12, 12).view(4, 6), torch.tensor([3, -2, 1, 5, 7, -4]))),
    "kept": lambda: (Kept(), (torch.randn(40, 3), torch.tensor([7, 3, 39, 12, 1, 0, 20, 11]), torch.randn(8, 3))),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_that_cannot_be_random_are_those_of_the_example(name, tmp_path):
    torch.manual_seed(0)
    model, example = WHOLE[name]()
    torch.export.save(torch.export.export(model, example), tmp_path / "model.pt2")
    import_model(str(tmp_path / "model.pt2"), tmp_path / "model")
    payload = open_payload(str(tmp_path / "model"))
    found = compile_payload(payload)(*(each.numpy() for each in example))
    wanted = model(*example)
    pairs = zip(found.values(), wanted, strict=True) if isinstance(found, dict) else [(found, wanted)]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-6)


class Alone(nn.Module):
    def forward(self):
        return torch.arange(6).float() * 2


def test_a_program_without_inputs_gives_what_it_is(tmp_path):
    torch.export.save(torch.export.export(Alone(), ()), tmp_path / "model.pt2")
    import_model(str(tmp_path / "model.pt2"), tmp_path / "model")
    np.testing.assert_array_equal(compile_payload(open_payload(str(tmp_path / "model")))(), np.arange(0, 12, 2))


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


class Masked(nn.Module):
    """Attention with a mask that it holds, or is given."""

    def __init__(self, mask=None):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x, given=None):
        mask = self.mask if given is None else given
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


HIDDEN = torch.zeros(6, 6).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
ROWLESS = HIDDEN.index_fill(0, torch.tensor([2]), -torch.inf)
MASKS = {"none": None, "one that shows each row": HIDDEN, "one that hides a row": ROWLESS}
HELD = {f"{name}, held": (Masked(mask), ()) for name, mask in MASKS.items()}
GIVEN = {f"{name}, given": (Masked(), (mask,)) for name, mask in MASKS.items() if mask is not None}


@pytest.mark.parametrize("name", {**HELD, **GIVEN})
def test_softmaxes_that_are_guarded_against_hidden_rows_need_no_guard(name):
    model, more = {**HELD, **GIVEN}[name]
    x = torch.randn(1, 2, 6, 4)
    program = torch.export.export(model.eval(), (x, *more)).run_decompositions()
    graph, weights = fold_constants(program.graph_module, buffers_of(program))
    given = [n.name for n in graph.nodes if n.op == "placeholder" and n.name not in weights]
    values = {**weights, **{name: x.numpy() for name, x in zip(given, (x, *more), strict=True)}}
    before = compute(graph, values)
    assert any("where" in str(node.target) for node in graph.nodes)
    write_guards(graph)
    assert not any("where" in str(node.target) for node in graph.nodes)
    np.testing.assert_allclose(compute(graph, values)[0], before[0], rtol=0, atol=1e-14)


class Scored(nn.Module):
    """Attention of three inputs."""

    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v)


def test_rows_of_scores_that_are_hidden_whole_are_zero_as_pytorch_has_them(tmp_path):
    torch.manual_seed(0)
    q, k, v = (torch.rand(1, 2, 64, 16) for _ in range(3))
    torch.export.save(torch.export.export(Scored(), (q, k, v)), tmp_path / "model.pt2")
    import_model(str(tmp_path / "model.pt2"), tmp_path / "model")
    payload = open_payload(str(tmp_path / "model"))
    assert len([task for task in partition(payload).tasks if len(task.contractions) == 2]) == 1
    q[0, 0, 3, 5], q[0, 0, 4, 5], q[0, 0, 5, 5] = -torch.inf, torch.inf, torch.nan  # all scores of their rows
    k[0, 1, 9, 2] = -torch.inf  # one score of each row
    got = compile_payload(payload)(q.numpy(), k.numpy(), v.numpy())
    expected = nn.functional.scaled_dot_product_attention(q, k, v).numpy()
    assert not expected[0, 0, 3].any()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


class Padded(nn.Module):
    """Rows that are moved on, cut off and filled."""

    def forward(self, x):
        moved = nn.functional.pad(x, (0, 0, 1, -1))
        return moved + x, nn.functional.pad(x, (-2, 3, -1, -1), value=2.0) * 2, nn.functional.pad(x, (-1, 0)) * 2


def test_pads_below_zero_cut_elements_off(tmp_path):
    x = torch.randn(2, 5, 8)
    torch.export.save(torch.export.export(Padded(), (x,)), tmp_path / "model.pt2")
    import_model(str(tmp_path / "model.pt2"), tmp_path / "model")
    got = compile_payload(open_payload(str(tmp_path / "model")))(x.numpy())
    for ours, theirs in zip(got.values(), Padded()(x), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-6)


class Viewed(nn.Module):
    """Attention whose result is viewed as it lies."""

    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v).view(-1)


@pytest.mark.parametrize("shape", [(2, 6, 8), (2, 4, 6, 8)])
def test_attention_is_viewed_as_in_eager(shape, tmp_path):
    given = tuple(torch.randn(shape) for _ in range(3))
    torch.export.save(torch.export.export(Viewed(), given), tmp_path / "model.pt2")
    import_model(str(tmp_path / "model.pt2"), tmp_path / "model")
    got = compile_payload(open_payload(str(tmp_path / "model")))(*(each.numpy() for each in given))
    np.testing.assert_allclose(got, Viewed()(*given).numpy(), rtol=1e-4, atol=1e-5)


def test_pickles_in_a_program_are_not_run(tmp_path, refused):
    path, good, hidden, mark = (tmp_path / name for name in ("model.pt2", "good.pt2", "bomb", "mark"))
    torch.save(Bomb(mark), hidden)
    torch.export.save(torch.export.export(nn.Linear(3, 4).eval(), (torch.randn(2, 3),)), good)
    with zipfile.ZipFile(good) as whole, zipfile.ZipFile(path, "w") as spoilt:
        for name in whole.namelist():
            data = hidden.read_bytes() if name.endswith("weight_0") else whole.read(name)
            spoilt.writestr(name, data.replace(b'"use_pickle": false', b'"use_pickle": true'))
    refused("import", path, "-o", tmp_path / "out", words="its weights must be tensors alone")
    path.write_bytes(pickle.dumps(Bomb(mark)))
    refused("import", path, "-o", tmp_path / "out", words="it is no program that torch.export saved")
    assert not mark.exists()


def test_the_attention_of_an_encoder_layer_is_found(tmp_path, worker):
    torch.manual_seed(0)
    model, (example,) = zoo.encoder(32, 2, 64, 16)
    payload = imported(tmp_path, model, example)
    assert sum(task.count for task in partition(payload).tasks if len(task.contractions) == 2) == 1
    agree(payload, worker)


def test_an_imported_model_is_called_with_its_inputs_alone(tmp_path):
    torch.manual_seed(0)
    model, example = MODELS["linear"]()
    function = compile_payload(imported(tmp_path, model, example))
    with torch.no_grad():
        expected = model(example).numpy()
    np.testing.assert_allclose(function(example.numpy()), expected, atol=1e-5)


def test_an_imported_model_in_bf16_is_compared_with_its_import_and_called(tmp_path):
    torch.manual_seed(0)
    model, example = MODELS["bfloat"]()
    payload = imported(tmp_path, model, example)
    assert {payload.make_inputs(seed)["input"].dtype.name for seed in (0, 1)} == {"bfloat16"}
    x = payload.make_inputs(0)["input"]
    got = compile_payload(payload)(x).astype(np.float32)  # raises where the import recorded something else
    with torch.no_grad():
        expected = model(torch.from_numpy(x.astype(np.float32)).bfloat16()).float().numpy()
    np.testing.assert_allclose(got, expected, rtol=2e-2, atol=1e-2)


class Beyond(nn.Module):
    """Reads rows that no input that is a place of one could name."""

    def forward(self, x, places):
        return x[places.flip(0) + 1000]


def test_a_program_that_cannot_run_on_random_inputs_is_refused_in_one_line(tmp_path, refused):
    example = (torch.randn(8, 20), torch.ones(3, dtype=torch.int64))
    torch.export.save(torch.export.export(Beyond().eval(), example), tmp_path / "model.pt2")
    refused("import", tmp_path / "model.pt2", "-o", tmp_path / "out", words="PyTorch must compute it for random inputs")
