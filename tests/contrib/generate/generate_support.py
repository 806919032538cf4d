"""A small language model to generate with."""

import numpy as np

from autotune.contrib.generate.generator import GenerationRequest
from payload.config import GPTConfig

SIZES = {"d_model": "16", "heads": "2", "d_ff": "24", "vocab": "31", "layers": "1", "positions": "24"}
CONFIG = GPTConfig(seq=16, d_model=16, layers=1, heads=2, d_ff=24, vocab=31, positions=24)
GREEDY = GenerationRequest((3, 1, 4), 12)


def rng():
    return np.random.default_rng(0)


class Counting:
    """A model whose likeliest token is one more than the last."""

    def start(self, prompt):
        return self.step(prompt[-1])

    def step(self, token):
        logits = np.zeros(50, np.float32)
        logits[(token + 1) % 50] = 10
        return logits
