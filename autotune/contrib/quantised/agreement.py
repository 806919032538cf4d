"""Agreement of greedy tokens with a reference, and whether the first mismatch is within the error of the logits."""

from dataclasses import dataclass

import numpy as np

from autotune.core.payload import Array


@dataclass(frozen=True)
class TokenAgreement:
    """Agreement of the generated tokens of a text with a reference.

    Attributes:
        steps: Number of steps.
        equal: Steps before the first mismatch; all of them if there is none.
        gap: Difference of the reference's logits of its own token and of ours at the mismatch; 0 if there is none.
        error: Largest absolute difference of logits at the mismatch; over all steps if there is none.
        largest: Largest absolute logit of the reference over all steps.
    """

    steps: int
    equal: int
    gap: float
    error: float
    largest: float

    @property
    def is_explained(self) -> bool:
        """Whether all tokens agree, or the first mismatch is within the error of the logits."""
        return self.equal == self.steps or self.gap <= 2 * self.error


def agree(logits: Array, wanted: Array) -> TokenAgreement:
    """Compare logits ``(steps, V)`` with those of a reference for the same text."""
    ours, theirs = logits.argmax(axis=1), wanted.argmax(axis=1)
    largest, steps = float(np.abs(wanted).max()), len(wanted)
    (mismatches,) = np.nonzero(ours != theirs)
    if not mismatches.size:
        return TokenAgreement(steps, steps, 0.0, float(np.abs(logits - wanted).max()), largest)
    first = int(mismatches[0])
    gap = float(wanted[first, theirs[first]] - wanted[first, ours[first]])
    return TokenAgreement(steps, first, gap, float(np.abs(logits[first] - wanted[first]).max()), largest)
