"""Interface to TVM: MetaSchedule's design spaces as knobs, and code of a config. TVM is imported lazily.

The schedule rules are MetaSchedule's for CPUs, without parallelization.
"""

import sys
from dataclasses import dataclass
from itertools import count
from types import ModuleType
from typing import Any

from autotune.contrib.backends.computation import is_described
from autotune.contrib.backends.tvm_code import SYMBOL, write_llvm
from autotune.contrib.backends.tvm_decisions import KINDS, SKETCH, Decision, read_decisions, space_of
from autotune.contrib.backends.tvm_te import TensorExpressions, UntranslatedOpError
from autotune.core.errors import CompileError
from autotune.core.plugs.external_kernel import MadeObject
from autotune.core.space import Config, Space, Value
from autotune.core.task import Task

INTRINSICS = "tvm.s_tir.tensor_intrin"
MOST_VECTOR = 64
UNROLLED = (0, 16, 64, 512)
WHOLE = (
    {"reuses": True, "locations": True},
    {"reuses": True, "locations": False},
    {"reuses": False, "locations": True},
)


@dataclass(frozen=True)
class Sketches:
    """MetaSchedule's design space of a task.

    Attributes:
        module: The task as a TVM module.
        context: MetaSchedule's tune context.
        traces: Trace of each sketch.
        decisions: Decisions of each sketch, in order.
        space: Search space of all sketches.
        default: Default config.
        arrays: Names of the module's arguments, in order.
    """

    module: Any
    context: Any
    traces: tuple[Any, ...]
    decisions: tuple[tuple[Decision, ...], ...]
    space: Space
    default: dict[str, Value]
    arrays: tuple[str, ...]


class Workshop:
    """The imported TVM package, and the design spaces of tasks."""

    def __init__(self) -> None:
        """Import TVM without its tensor intrinsics, which take 15 s to load and which the rules here do not use."""
        sys.modules.setdefault(INTRINSICS, ModuleType(INTRINSICS))
        import tvm
        from tvm.s_tir import meta_schedule

        self._tvm, self._ms = tvm, meta_schedule
        self._language = TensorExpressions()
        self._target = tvm.target.Target(
            {"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": 1}
        )
        self._known: dict[str, Sketches] = {}

    def refusal(self, task: Task) -> str:
        """Return why there is no sketch of a task; empty if there is one."""
        if not is_described(task):
            return "computes what is not described op by op"
        try:
            self.sketches(task)
        except UntranslatedOpError as error:
            return f"computes what is not written in TVM's language yet: {error}"
        except Exception as error:  # TVM raises classes of its own
            return f"is refused by TVM: {type(error).__name__}: {str(error).strip().splitlines()[-1][:200]}"
        return ""

    def sketches(self, task: Task) -> Sketches:
        """Return the design space of a task, cached.

        Raises:
            UntranslatedOpError: An operation cannot be translated to TVM.
        """
        if task.tag not in self._known:
            self._known[task.tag] = self._sketch(task)
        return self._known[task.tag]

    def _sketch(self, task: Task) -> Sketches:
        if not is_described(task):
            raise UntranslatedOpError("an op")
        function = self._language.function_of(task)
        module = self._tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        context, traces = self._design(module)
        decisions = tuple(tuple(read_decisions(trace, number)) for number, trace in enumerate(traces))
        space, default = space_of(decisions)
        inputs = (each.name for each in task.payload.arguments if each.role != "output")
        arrays = (*inputs, str(function.params[-1].name))
        return Sketches(module, context, traces, decisions, space, default, arrays)

    def _design(self, module: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401
        """Return MetaSchedule's context for a module, and the trace of each sketch.

        Rules are dropped one by one if a compute location that they sample is invalid for an earlier block.
        """
        for wanted in WHOLE:
            try:
                return self._apply(module, self._rules(**wanted))
            except Exception:  # TVM raises classes of its own
                continue
        return self._apply(module, self._rules(reuses=False, locations=False))

    def _apply(self, module: Any, rules: list[Any]) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401
        apply = self._ms.space_generator.PostOrderApply(sch_rules=rules, postprocs=self._postprocs(), mutator_probs={})
        context = self._ms.TuneContext(
            module, target=self._target, space_generator=apply, task_name="main", rand_state=1, num_threads=1
        )
        return context, tuple(schedule.trace for schedule in context.generate_design_space())

    def _rules(self, *, reuses: bool, locations: bool) -> list[Any]:
        """Return the schedule rules; `reuses` adds write caches, `locations` adds sampled compute locations."""
        rule = self._ms.schedule_rule
        reuse = rule.ReuseType(req="may", levels=[1, 2], scope="global") if reuses else None
        return [
            rule.ApplyCustomRule(),
            rule.InlineConstantScalars(),
            rule.AutoInline(
                into_producer=False,
                into_consumer=True,
                inline_const_tensor=True,
                disallow_if_then_else=True,
                require_injective=True,
                require_ordered=True,
                disallow_op=["tirx.exp"],
            ),
            rule.MultiLevelTiling("SSRSRS", max_innermost_factor=MOST_VECTOR, reuse_write=reuse),
            rule.ParallelizeVectorizeUnroll(
                max_jobs_per_core=-1, max_vectorize_extent=MOST_VECTOR, unroll_max_steps=list(UNROLLED)
            ),
            *([rule.RandomComputeLocation()] if locations else []),
        ]

    def _postprocs(self) -> list[Any]:
        process = self._ms.postproc
        return [
            process.DisallowDynamicLoop(),
            process.RewriteParallelVectorizeUnroll(),
            process.RewriteReductionBlock(),
        ]

    def make(self, task: Task, config: Config) -> MadeObject:
        """Generate the code of a config.

        Raises:
            CompileError: Stage ``transform``; the decisions are inconsistent.
        """
        sketches = self.sketches(task)
        number = int(config[SKETCH])
        schedule = self._tvm.s_tir.Schedule(sketches.module, debug_mask="none")
        values = [each.of(config[each.knob.name]) for each in sketches.decisions[number]]
        positions = count()

        def decide(instruction: Any, _inputs: Any, _attributes: Any, decision: Any) -> Any:  # noqa: ANN401
            return values[next(positions)] if instruction.kind.name in KINDS else decision

        sketches.traces[number].apply_to_schedule(schedule, remove_postproc=False, decision_provider=decide)
        for process in sketches.context.space_generator.postprocs:
            if not process.apply(schedule):
                raise CompileError("transform", f"{process} must take what the decisions make, it refuses")
        text = write_llvm(self._tvm, schedule.mod, self._target, sketches.arrays)
        maker = f"apache-tvm {self._tvm.__version__} for {self._target}"
        return MadeObject(SYMBOL, text.encode(), (), maker, str(schedule.mod))
