"""The feature as searches know it: samplers ``auto`` and ``model``."""

from autotune.tuning.samplers.sampler import Sampler, SamplerKind, SpaceView


def open_model(view: SpaceView, seed: int) -> Sampler:
    """A model of one space; SciPy is loaded with it."""
    from autotune.contrib.cost_model.model import CostModel

    return CostModel(view, seed)


MODEL = SamplerKind(open_model, "a cost model", takes_transfer=True)
