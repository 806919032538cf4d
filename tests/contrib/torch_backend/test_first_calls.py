"""Programs that give other results than PyTorch are found in their first call; rounding is no reason."""

import warnings

import pytest

torch = pytest.importorskip("torch")
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from autotune.contrib.torch_backend.calls import RegionProgram  # noqa: E402
from autotune.contrib.torch_backend.first_calls import FirstCalls, mismatch  # noqa: E402
from autotune.contrib.torch_backend.regions import WARNED, BackendWarning  # noqa: E402

pytestmark = pytest.mark.usefixtures("warm_program_converters")


def net(x):
    return torch.relu(x @ x.T) * 2 + 1


@pytest.fixture(autouse=True)
def inference():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


@pytest.fixture
def said():
    WARNED.clear()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", BackendWarning)
        yield found


def in_new_process(store, **options):
    torch._dynamo.reset()
    WARNED.clear()
    return torch.compile(net, backend="autotune", options={"store": store, **options})


def test_a_wrong_program_is_replaced_by_pytorch_and_not_kept(tmp_path, said, monkeypatch):
    right = RegionProgram.__call__

    def wrong(self, tensors):
        results = right(self, tensors)
        results[0][0, 0] = 0
        return results

    x = torch.randn(4, 8)
    monkeypatch.setattr(RegionProgram, "__call__", wrong)
    ours = in_new_process(tmp_path)
    for _ in range(3):
        torch.testing.assert_close(ours(x), net(x), rtol=0, atol=0)
    (line,) = [str(each.message) for each in said]
    assert "runs as PyTorch runs it: its program gives other results, result 0 is off by" in line
    (refused,) = tmp_path.glob("*.refused")
    assert "other results" in refused.read_text()
    assert not [*tmp_path.glob("*/program.json"), *tmp_path.glob("*/checked")]
    monkeypatch.undo()
    monkeypatch.setattr("autotune.contrib.torch_backend.region_compiler.make_program", None)
    torch.testing.assert_close(in_new_process(tmp_path)(x), net(x), rtol=0, atol=0)
    assert "other results" in str(said[-1].message)


def test_a_wrong_program_is_refused_for_its_error_alone(tmp_path, said, monkeypatch):
    right, x = RegionProgram.__call__, torch.randn(4, 8)
    monkeypatch.setattr(RegionProgram, "__call__", lambda self, tensors: [-each for each in right(self, tensors)])
    torch.testing.assert_close(in_new_process(tmp_path, error=0.1)(x), net(x), rtol=0, atol=0)
    assert "other results" in str(said[-1].message)
    monkeypatch.undo()
    said.clear()
    in_new_process(tmp_path)(x)
    assert len([*tmp_path.glob("*/checked")]) == 1
    assert not said


def test_a_right_program_is_compared_in_one_process_alone(tmp_path, said, monkeypatch):
    x = torch.randn(4, 8)
    torch.testing.assert_close(in_new_process(tmp_path)(x), net(x))
    assert len([*tmp_path.glob("*/checked")]) == 1
    monkeypatch.setattr(FirstCalls, "__call__", None)
    torch.testing.assert_close(in_new_process(tmp_path)(x), net(x))
    assert not said


def runs(program, graph, calls):
    """How often PyTorch ran beside a program, and whether it was found right."""
    counted, agreed = [], []

    def count(module, given):
        counted.append(given)

    graph.register_forward_pre_hook(count)
    checked = FirstCalls(program, graph, [0], 0.0, lambda: agreed.append(1), agreed.append)
    for each in calls:
        checked([each])
    return len(counted), agreed


def test_calls_are_compared_until_one_has_inputs_that_vary():
    zeros, x = torch.zeros(4, 8), torch.randn(4, 8)
    graph = make_fx(lambda x: (net(x),))(x)
    assert runs(lambda given: (net(*given),), graph, [zeros, x, x, x]) == (2, [1])
    graph = make_fx(lambda x: (net(x),))(x)
    assert runs(lambda given: (net(*given),), graph, [zeros] * 5) == (3, [1])


def shifted(x):
    """Deviations that cancel: float32 is off by far more than its precision."""
    return ((x + 30000).var(-1), (x + 30000) - 30000)


def places(x):
    return (x.argmax(-1), x > 0.5, torch.log(x - 0.5), x.half().softmax(-1))


def of(function, x):
    return make_fx(function)(x), [x], function(x)


def rounded(values, like):
    """Values off by some roundings, of the type that PyTorch gives."""
    return (values * (1 + 3e-7)).to(like.dtype) if values.is_floating_point() else values


@pytest.mark.parametrize("function", [shifted, places])
def test_rounding_is_no_reason(function):
    graph, given, theirs = of(function, torch.rand(40, 300))
    exact = function(given[0].double()) if function is shifted else theirs
    ours = [rounded(each, like) for each, like in zip(exact, theirs, strict=True)]
    assert not mismatch(graph, given, ours, theirs)


def lost(result):
    result[-1] = 0


def swapped(result):
    result[[0, 1]] = result[[1, 0]]


def unknown(result):
    result[0] = float("nan") if result.is_floating_point() else -1


@pytest.mark.parametrize("fault", [lost, swapped, unknown])
@pytest.mark.parametrize("number", range(4))
def test_other_results_are_a_reason(fault, number):
    graph, given, theirs = of(places, torch.rand(40, 300))
    ours = [each.clone() for each in theirs]
    fault(ours[number])
    if torch.equal(ours[number].nan_to_num(), theirs[number].nan_to_num()):
        pytest.skip("the fault changes nothing here")
    assert f"result {number} is off by" in mismatch(graph, given, ours, theirs)


def test_what_may_be_off_by_an_error_may_be():
    graph, given, theirs = of(lambda x: (net(x),), torch.rand(40, 300))
    ours = [theirs[0] * 1.001]
    assert mismatch(graph, given, ours, theirs)
    assert not mismatch(graph, given, ours, theirs, error=1e-3)
