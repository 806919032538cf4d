"""Models of any size within bounds: what may be padded is proved, few sizes serve all, one copy of the weights."""

import json
import shutil
from dataclasses import replace
from math import inf

import numpy as np
import onnxruntime
import pytest
from bundle_support import no_care
from model_zoo import FLOAT, helper, save
from sizes_support import LOW, attention, request

import autotune as at
from autotune.contrib.sizes.bounds import Bounds, parse_bounds
from autotune.contrib.sizes.calls import AnySize, prepare
from autotune.contrib.sizes.folder import CompiledSize, SizedModel, read_sized, write_sized
from autotune.contrib.sizes.making import import_size, import_sized
from autotune.contrib.sizes.open_model import OpenInput
from autotune.contrib.sizes.paths import DESCRIPTION
from autotune.contrib.sizes.plan import SizeCosts, choose, costs_of, needed, plan_request, points_of, spaced
from autotune.contrib.sizes.proof import Dim, Prover
from autotune.contrib.sizes.tuning import tune_sized
from autotune.core.errors import PayloadError
from autotune.core.host.tensor_file import cached_hash
from autotune.core.listener import Listener
from autotune.store.store import trials
from autotune.tuning.options import TuneOptions

BATCH, TOKENS = Bounds("batch", 1, 4), Bounds("tokens", 1, 12)
AXES = {"batch": 0, "tokens": 1}


class Arithmetic:
    """A model written in NumPy.

    Args:
        function: Computes the results of an array ``(batch, tokens)``, and of a mask like it where it takes one.
        masked: Whether it takes one.
    """

    def __init__(self, function, *, masked=False):
        named = [("x", np.float32)] + [("mask", np.int64)] * masked
        self.inputs = tuple(OpenInput(name, AXES, (0, 0), np.dtype(dtype)) for name, dtype in named)
        self._function = function

    def run(self, inputs):
        return [np.asarray(self._function(*inputs.values()))]


def softmax(x):
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def masked_softmax(x, mask):
    return softmax((x + (1 - mask) * LOW).astype(np.float32)) * 1


MODELS = {  # what it computes; whether tokens may be padded, and split
    "element by element": (Arithmetic(lambda x: 2 * x), True, True),
    "sums of what was before": (Arithmetic(lambda x: np.cumsum(x, 1)), True, False),
    "sum of all": (Arithmetic(lambda x: x.sum(1)), True, False),
    "mean of all": (Arithmetic(lambda x: x.mean(1)), False, False),
    "softmax of all": (Arithmetic(softmax), False, False),
    "the last one": (Arithmetic(lambda x: x[:, -1]), False, False),
    "softmax of what a mask leaves": (Arithmetic(masked_softmax, masked=True), True, False),
    "one more than there are": (Arithmetic(lambda x: np.pad(x, ((0, 0), (0, 1)))), False, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_may_be_padded_and_split_is_proved(name):
    model, pads, splits = MODELS[name]
    prover = Prover(model, (BATCH, TOKENS), {})
    tokens, batch = prover.prove(TOKENS), prover.prove(BATCH)
    assert (tokens.pad, tokens.split) == (pads, splits)
    assert (batch.pad, batch.split) == (True, True)


MANY = Bounds("tokens", 8, 40)  # of which the largest is above zero in nearly every draw around it


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.max(1),
        lambda x: x.min(1),
        lambda x: x.argmax(1),
        lambda x: x / np.maximum(np.abs(x.max(1, keepdims=True)), 1),
        lambda x: x / np.maximum(np.abs(x).mean(1, keepdims=True), 4),
    ],
)
def test_zeros_that_are_no_largest_among_usual_numbers_are_seen_among_others(function):
    assert not Prover(Arithmetic(function), (BATCH, MANY), {}).prove(MANY).pad


@pytest.mark.parametrize("function", [lambda x: x / max(1, abs(x).max()), lambda x: x * (1 + (x > 2).any())])
def test_parts_that_meet_in_large_numbers_alone_are_no_parts(function):
    assert not Prover(Arithmetic(function), (BATCH, TOKENS), {}).prove(TOKENS).split


def test_a_mask_of_zeros_alone_is_asked_for_where_it_would_reach_the_padding():
    prover = Prover(MODELS["softmax of what a mask leaves"][0], (BATCH, TOKENS), {})
    assert prover.prove(TOKENS).masks == ("mask",)
    assert Prover(Arithmetic(lambda x, mask: x * mask, masked=True), (BATCH, TOKENS), {}).prove(TOKENS).masks == ()


PAD, SPLIT, EXACT = Dim("tokens", 1, 12, pad=True), Dim("batch", 1, 4, pad=True, split=True), Dim("batch", 1, 4)


def test_a_request_is_computed_by_the_cheapest_sizes_that_hold_it():
    sizes = points_of({"batch": [1, 4], "tokens": [4, 12]})  # (1, 4), (1, 12), (4, 4), (4, 12)
    seconds = [1.0, 3.0, 2.5, 9.0]
    parts = plan_request((SPLIT, PAD), sizes, seconds, {"batch": 4, "tokens": 3})
    assert [(part.size, part.start, part.count) for part in parts] == [(2, 0, 4)]
    parts = plan_request((SPLIT, PAD), sizes, seconds, {"batch": 2, "tokens": 5})
    assert [(part.size, part.start, part.count) for part in parts] == [(1, 0, 1), (1, 1, 1)]
    assert plan_request((EXACT, PAD), sizes, seconds, {"batch": 2, "tokens": 5}) == []


@pytest.mark.parametrize("dims", [(SPLIT, PAD), (EXACT, PAD), (Dim("batch", 1, 4, split=True), PAD)])
def test_costs_of_many_requests_are_those_of_their_plans(dims):
    sizes, seconds = points_of({"batch": [1, 3], "tokens": [4, 9, 12]}), [1.0, 2.0, 2.5, 2.0, 5.0, 7.0]
    requests = points_of({"batch": range(1, 5), "tokens": range(1, 13)})
    for each, cost in zip(requests, costs_of(dims, sizes, seconds, requests), strict=True):
        parts = plan_request(dims, sizes, seconds, each)
        assert sum(part.count for part in parts) in (0, each["batch"])
        assert cost == (pytest.approx(sum(seconds[part.size] for part in parts), abs=1e-3) if parts else inf)


def test_chosen_sizes_serve_all_requests_and_are_worth_it():
    costs = SizeCosts({"batch": [1, 4], "tokens": [1, 12]}, [1e-3, 12e-3, 4e-3, 48e-3])
    assert costs.of({"batch": 2, "tokens": 6}) == pytest.approx(12e-3)
    requests = points_of({"batch": range(1, 5), "tokens": range(1, 13)})
    worst = []
    for most in (1, 2, 4, 8):
        chosen = choose((SPLIT, PAD), costs, most)
        assert len(chosen.sizes) <= most
        paid = costs_of((SPLIT, PAD), chosen.sizes, [costs.of(size) for size in chosen.sizes], requests)
        worst.append(np.mean(np.log(paid / [costs.of(each) for each in requests])))
        assert chosen.cost == pytest.approx(worst[-1], abs=0.01)
    assert worst == sorted(worst, reverse=True)
    assert worst[-1] < 0.2 < worst[0]


def test_more_sizes_than_may_be_compiled_are_refused():
    with pytest.raises(PayloadError, match="at most 8 sizes are compiled, 12 are needed: what is padded along tokens"):
        needed((SPLIT, Dim("tokens", 1, 12)), 8)


def test_sizes_are_spaced_by_factors_and_end_at_the_borders():
    assert spaced(1, 512, 3) == [1, 23, 512]
    assert spaced(5, 5, 3) == [5]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sizes")
    return attention(folder / "attention.onnx")


@pytest.fixture(scope="module")
def folder(model, warm_converters):
    with no_care():
        import_sized(model, (Bounds("batch", 1, 2), Bounds("tokens", 1, 12)), model.parent / "any", most=2)
    return model.parent / "any"


def test_every_size_within_bounds_gives_what_the_model_gives(model, folder):
    function, rng = at.sizes.open(folder), np.random.default_rng(0)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    for batch in (1, 2):
        for tokens in (1, 2, 5, 11, 12):
            given = request(rng, batch, tokens)
            np.testing.assert_allclose(function(**given), session.run(None, given)[0], atol=1e-5)
    assert len(function.sizes) <= 2
    dims = tuple(replace(dim, high=5) if dim.name == "batch" else dim for dim in function.model.dims)
    wider = AnySize(replace(function.model, dims=dims), lambda number: prepare(folder, function.model, number))
    assert len(wider.plan(batch=5, tokens=7)) > 1  # in parts, the last of them padded
    given = request(rng, 5, 7)
    np.testing.assert_allclose(wider(**given), session.run(None, given)[0], atol=1e-5)


def test_a_mask_of_any_name_is_looked_at(tmp_path, warm_converters):
    with no_care():
        path = attention(tmp_path / "dotted.onnx", mask="attention.mask")
        import_sized(path, (Bounds("batch", 1, 1), Bounds("tokens", 1, 4)), tmp_path / "any", most=1)
    function = at.sizes.open(tmp_path / "any")
    assert [dim.masks for dim in function.model.dims] == [(), ("attention_mask",)]
    with pytest.raises(PayloadError, match="attention_mask must hold a 1 in each line along tokens"):
        function(np.ones((1, 3), int), np.zeros((1, 3), int))


def test_there_is_one_copy_of_the_weights(folder):
    shared = folder / "weights.safetensors"
    others = sum(path.stat().st_size for path in folder.rglob("*.safetensors") if path != shared)
    assert shared.stat().st_size > 4 * (50 + 3 * 16) * 16 > 20 * others
    assert not list(folder.rglob("*.onnx"))


class StopAt(Listener):
    """Interrupts, as a user does, where a stage begins.

    Args:
        words: What the stage's sentence contains.
    """

    def __init__(self, words):
        self.words = words

    def stage(self, sentence):
        if self.words in sentence:
            raise KeyboardInterrupt


@pytest.fixture
def two_sizes(tmp_path, warm_converters):
    """A folder of two sizes of one op, not tuned."""
    node, shape = helper.make_node("Relu", ["x"], ["y"]), ["n"]
    model, place = save(tmp_path / "relu.onnx", [node], [("x", FLOAT, shape)], [("y", FLOAT, shape)]), tmp_path / "any"
    sizes = tuple(CompiledSize({"n": size}, 1.0) for size in (4, 8))
    for each in sizes:
        import_size(model, place, each.sizes)
    dims = (Dim("n", 1, 8, pad=True, split=True, results=(0,)),)
    write_sized(place, SizedModel("relu.onnx", "0" * 64, dims, {"x": {"n": 0}}, sizes))
    return place


def test_a_folder_is_tuned_size_by_size_and_goes_on_where_it_was_interrupted(two_sizes, autotune):
    store = two_sizes.parent / "store.journal"
    with no_care():
        with pytest.raises(KeyboardInterrupt):
            tune_sized(two_sizes, str(store), TuneOptions(trials=1, cold=True), StopAt("tuning n=8"))
        before = list(trials(store)["key"])
        assert [place.name for place in (two_sizes / "bundles").iterdir()] == ["n=4"]
        assert [each.seconds < 1 for each in read_sized(two_sizes).sizes] == [True, False]
        code, out, said = autotune("tune", two_sizes, "--trials", 1, "--cold", "--store", store)
    assert code == 0, said
    assert [line.split(":")[0].strip() for line in out.splitlines()] == ["n=4", "n=8"]
    assert list(trials(store)["key"])[: len(before)] == before
    given = np.linspace(-1, 1, 7).astype(np.float32)
    np.testing.assert_array_equal(at.sizes.open(two_sizes)(given), np.maximum(given, 0))
    code, out, _ = autotune("inspect", two_sizes)
    assert code == 0
    assert "n=8: " in out.split("expected:")[1]


@pytest.mark.parametrize("verb", ["show", "compare", "replay", "regress", "explain"])
def test_verbs_that_take_one_size_name_one(folder, refused, verb):
    said = refused(verb, folder, words=f"{verb} must be given one size, {folder} holds a model of any size; ")
    assert "name one, " in said or f"run autotune tune {folder} first" in said


def test_weights_are_hashed_once_for_all_sizes_of_a_folder(folder, monkeypatch):
    monkeypatch.setattr("autotune.core.host.tensor_file.STEADY_NS", 0)
    cached_hash.cache_clear()
    model = read_sized(folder)
    for number in range(len(model.sizes)):
        prepare(folder, model, number)
    found = cached_hash.cache_info()
    assert (found.misses, found.hits) == (1, len(model.sizes) - 1)


def test_arrays_of_any_order_alignment_and_whole_type_are_served(folder):
    function, given = at.sizes.open(folder), request(np.random.default_rng(0), 2, 7)
    ids, expected = given["ids"], function(**given)
    odd = np.frombuffer(bytearray(ids.nbytes + 1), "i8", offset=1, count=ids.size).reshape(ids.shape)
    odd[...] = ids
    mirrored = np.ascontiguousarray(ids[:, ::-1])[:, ::-1]
    for each in (odd, np.asfortranarray(ids), mirrored, ids.astype("i4"), ids.astype(">i8"), ids.tolist()):
        np.testing.assert_array_equal(function(each, given["mask"]), expected)


def test_a_call_with_too_many_arrays_says_all_that_it_got(folder):
    function, given = at.sizes.open(folder), request(np.random.default_rng(0), 2, 7)
    ids, mask = given["ids"], given["mask"]
    for words, arrays, named in (
        ("got ids, mask, 1 more in order", (ids, mask, ids), {}),
        ("got ids, mask, 2 more in order, mask", (ids, mask, ids, ids), {"mask": mask}),
        ("got ids, ids", (ids,), {"ids": ids}),
    ):
        with pytest.raises(PayloadError) as error:
            function(*arrays, **named)
        assert str(error.value).endswith(f"takes ids, mask, each once; {words}")


def test_requests_that_are_not_served_are_refused_in_one_line(folder):
    function, rng = at.sizes.open(folder), np.random.default_rng(0)
    refused = {
        "batch must be from 1 to 2, got 3": request(rng, 3, 4),
        "tokens must be from 1 to 12, got 13": request(rng, 1, 13),
        "tokens must be one size in all arrays, got 4 and 5": {**request(rng, 1, 4), "mask": np.ones((1, 5), int)},
        "mask must hold a 1 in each line along tokens": {"ids": np.ones((1, 7), int), "mask": np.zeros((1, 7), int)},
        "takes ids, mask, each once; got ids": {"ids": np.ones((1, 7), int)},
        "ids must hold whole numbers": {**request(rng, 1, 12), "ids": np.ones((1, 12))},
        "ids must be from -50 to 49, got 50": {**request(rng, 1, 12), "ids": np.full((1, 12), 50)},
        "ids must have 2 axes, got 0": {**request(rng, 1, 12), "ids": None},
        "mask must have 2 axes, got 1": {**request(rng, 1, 12), "mask": np.ones(12, int)},
    }
    for words, given in refused.items():
        with pytest.raises(PayloadError) as error:
            function(**given)
        assert words in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 2}, "format must be 1, got 2"),
        ({"sizes": []}, "every compiled size must give every dimension"),
        ({"source": 3}, "source: Input should be a valid string"),
    ],
)
def test_descriptions_that_cannot_be_are_refused(folder, tmp_path, changes, words):
    text = json.loads((folder / DESCRIPTION).read_text())
    (tmp_path / DESCRIPTION).write_text(json.dumps({**text, **changes}))
    with pytest.raises(PayloadError, match=words):
        read_sized(tmp_path)


def forget_axes(text):
    for axes in text["axes"].values():
        del axes["tokens"]


def turn_axes(text):
    for axes in text["axes"].values():
        axes["tokens"], axes["batch"] = axes["batch"], axes["tokens"]


def add_results(text):
    for dim in text["dims"]:
        dim["results"] += [0]


def make_huge(text):
    for size in text["sizes"]:
        size["sizes"]["tokens"] = 1 << 63


@pytest.mark.parametrize("change", [forget_axes, turn_axes, add_results, make_huge])
def test_a_folder_that_says_other_axes_than_its_sizes_have_is_refused(change, folder, tmp_path):
    shutil.copytree(folder, tmp_path / "any")
    text = json.loads((folder / DESCRIPTION).read_text())
    change(text)
    (tmp_path / "any" / DESCRIPTION).write_text(json.dumps(text))
    with pytest.raises(PayloadError) as error:
        at.sizes.open(tmp_path / "any")(**request(np.random.default_rng(0), 2, 5))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        (["tokens=5..2"], "range of tokens must begin at 1 or more and hold a size, got 5..2"),
        (["tokens=0..2"], "range of tokens must begin at 1 or more"),
        (["tokens=a"], "--dim must be NAME=LOW..HIGH, got 'tokens=a'"),
        (["tokens=1..2", "tokens=1..2"], "--dim must give a dimension once, got tokens 2 times"),
        (["heads=1..2"], "--dim must name a dimension that attention.onnx leaves open, batch, tokens; got heads"),
        (["tokens=1..2"], "every open dimension of attention.onnx must have bounds, batch has none"),
    ],
)
def test_bad_bounds_are_one_line(model, autotune, dims, words):
    options = [word for each in dims for word in ("--dim", each)]
    code, _, said = autotune("import", str(model), *options, "-o", str(model.parent / "bad"))
    assert code == 2
    assert words in said
    assert len(said.strip().splitlines()) == 1


def test_bounds_are_read():
    assert parse_bounds(["batch=1..4", "tokens=1..12"]) == (BATCH, TOKENS)
