"""Programs that families plan: what tells them from others is data, and each says itself what is done with it."""

from dataclasses import dataclass

import pytest

from autotune.core.errors import ScheduleError
from autotune.core.host.machine import this_machine
from autotune.core.plugs.external_kernel import ExternalKernel, MadeObject
from autotune.core.plugs.family import Family
from autotune.core.plugs.guarded_family import GuardedFamily
from autotune.core.plugs.program import ExternalCode, UserScript, WrittenScript
from autotune.core.plugs.rewrites import NeededRewrite, Rewrites
from autotune.core.scripts.assembly import Step, assemble, kernels_of, script_of
from autotune.core.scripts.parametric import ChosenScript

OPS = 'transform.annotate %op "mine" : !transform.any_op'
KERNEL = ExternalKernel("tag", "mine", ("memref<4xf32>",), MadeObject("f", b"code"))


def test_an_identity_names_the_rewrites_that_a_script_asks_for():
    dots = NeededRewrite("dots", 3, "words")
    program = WrittenScript(OPS, rewrites=Rewrites(needed=(dots,)))
    assert program.identity.rewrites == (dots,)
    assert program.identity.text == f"// words (dots@3)\n{OPS}"
    assert program.identity != WrittenScript(OPS).identity
    assert WrittenScript(OPS).identity.text == OPS


def test_a_users_script_is_written_alone_or_as_sequences_beside_others():
    chosen = ChosenScript("mine.mlir", "module {}", (("tile", "8"),), tag="tag")
    program = UserScript("digest", chosen)
    assert program.identity.text == "digest (('tile', '8'),) ()"
    assert script_of([Step("tag", 1, program)]) is chosen
    written = program.written(lambda _: "", lambda _: ("sequence", OPS))
    assert (written.sequences, written.body) == ("sequence", OPS)
    whole = UserScript("digest", ChosenScript("mine.mlir", "module {}", ()))
    assert assemble([Step("whole", 1, whole.written(lambda _: "all of it", lambda _: ("", "")))]) == "all of it"


def test_external_code_is_made_when_it_is_to_be_compiled():
    calls = []
    program = ExternalCode("kernels@1 by mine", lambda: calls.append(1) or KERNEL)
    step = Step("tag", 1, program, "by mine")
    assert (program.identity.text, kernels_of([step]), calls) == ("kernels@1 by mine", (), [])
    made = program.made()
    assert kernels_of([Step("tag", 1, made)]) == (KERNEL,)
    assert made.made() is made
    assert calls == [1]
    assert "@task_0" not in assemble([Step("tag", 1, made, "by mine")])


@dataclass(frozen=True)
class Idle(Family):
    """A family that neither writes a script nor plans anything else."""

    name: str = "idle"
    fallback: bool = False

    def covers(self, task):
        return True

    def space(self, task, machine):
        raise NotImplementedError

    def default(self, task, machine):
        return {}


@pytest.mark.parametrize("family", [Idle(), GuardedFamily(Idle())])
def test_a_family_must_plan_something(family):
    with pytest.raises(ScheduleError, match="'idle' must define build, or plan"):
        family.plan(None, {}, this_machine(), 1)
