"""Programs of torch.export become payloads whose default schedules agree with PyTorch in float64."""

import numpy as np
import pytest
from bundle_support import no_care

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from autotune.bundles.call import compile_payload  # noqa: E402
from autotune.bundles.candidates import default_candidate  # noqa: E402
from autotune.compiler.tasks.partition import partition  # noqa: E402
from autotune.core.evaluator import Job  # noqa: E402
from autotune.core.machine import this_machine  # noqa: E402
from autotune.registry import import_model, load_payload  # noqa: E402
from autotune.worker.worker import Worker  # noqa: E402


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
    "residual": lambda: (Residual(), torch.randn(1, 8, 10, 10)),
    "embedded": lambda: (Embedded(), torch.zeros(1, 12, dtype=torch.int64)),
    "encoder": lambda: (nn.TransformerEncoderLayer(32, 2, 64, batch_first=True), torch.randn(1, 16, 32)),
}


def hugging_face(name):
    """A model of two layers with random weights."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    common = {"attn_implementation": "eager", "vocab_size": 60}
    if name == "bert":
        config = transformers.BertConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, **common
        )
        return Taken(transformers.BertModel(config), "last_hidden_state")
    if name == "gpt2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, use_cache=False, **common)
        return Taken(transformers.GPT2LMHeadModel(config), "logits")
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(num_hidden_layers=2, use_cache=False, **sizes, **common)
    return Taken(transformers.LlamaForCausalLM(config), "logits")


class Taken(nn.Module):
    """A model of which one result is taken."""

    def __init__(self, model, result):
        super().__init__()
        self.model, self.result = model, result

    def forward(self, ids):
        return getattr(self.model(input_ids=ids), self.result)


@pytest.fixture(scope="module")
def worker():
    with no_care(), Worker() as running:
        yield running


def imported(folder, model, example):
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(model.eval(), (example,)), path)
    import_model(str(path), folder / "model")
    return load_payload(str(folder / "model"))


def agree(payload, worker):
    machine = this_machine()
    job = Job(payload, (default_candidate(partition(payload), machine),), machine)
    (found,) = worker.evaluate(job)
    assert found.samples is not None, f"{found.outcome}: {found.diagnostic}"


@pytest.mark.parametrize("name", MODELS)
def test_a_program_agrees_with_pytorch_by_default_configs(name, tmp_path, worker):
    torch.manual_seed(0)
    agree(imported(tmp_path, *MODELS[name]()), worker)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_a_model_of_hugging_face_has_its_attention_found_and_its_weights_packed(name, tmp_path, worker):
    payload = imported(tmp_path, hugging_face(name), torch.zeros(1, 16, dtype=torch.int64))
    tasks = partition(payload).tasks
    assert sum(task.count for task in tasks if len(task.contractions) == 2) == 2
    plain = [c for task in tasks for c in task.contractions if len(task.contractions) == 1]
    assert plain
    assert all(c.constant_b for c in plain)
    agree(payload, worker)


def test_an_imported_model_is_called_with_its_inputs_alone(tmp_path):
    torch.manual_seed(0)
    model, example = MODELS["linear"]()
    function = compile_payload(imported(tmp_path, model, example))
    with torch.no_grad():
        expected = model(example).numpy()
    np.testing.assert_allclose(function(example.numpy()), expected, atol=1e-5)
