"""Greedy tokens held against a reference: how many agree, and whether the first that does not was as likely."""

from dataclasses import dataclass

import numpy as np

from autotune.core.payload import Array


@dataclass(frozen=True)
class TokenAgreement:
    """What was found of a text, step by step.

    Attributes:
        steps: Steps there were.
        equal: Steps up to the first other token; all of them if there is none.
        gap: What the reference's logit of its own token is above that of the other one, there; 0 if there is none.
        error: Largest difference of any logit to the reference's, there; of all steps if there is none.
        largest: Largest logit of the reference in all steps.
    """

    steps: int
    equal: int
    gap: float
    error: float
    largest: float

    @property
    def is_explained(self) -> bool:
        """Whether tokens agree, or the first other one lies within what logits are off."""
        return self.equal == self.steps or self.gap <= 2 * self.error


def agree(logits: Array, wanted: Array) -> TokenAgreement:
    """Hold logits ``(steps, V)`` behind the same text against a reference's."""
    ours, theirs = logits.argmax(axis=1), wanted.argmax(axis=1)
    largest, steps = float(np.abs(wanted).max()), len(wanted)
    (other,) = np.nonzero(ours != theirs)
    if not other.size:
        return TokenAgreement(steps, steps, 0.0, float(np.abs(logits - wanted).max()), largest)
    first = int(other[0])
    gap = float(wanted[first, theirs[first]] - wanted[first, ours[first]])
    return TokenAgreement(steps, first, gap, float(np.abs(logits[first] - wanted[first]).max()), largest)
