"""Walk a parametric script in execution order, through every alternative.

The walk begins at the entry, follows ``include`` and matchers, and keeps track of the enclosing regions of
``transform.tune.alternatives``: a knob is active where its value is used. Params are traced to the knobs that define
them.
"""

import re
from dataclasses import dataclass, field, replace

from mlir import ir

from autotune.compiler.script.checks import check_op
from autotune.compiler.script.constraints import read_constraint
from autotune.compiler.script.options import read_options
from autotune.compiler.script.user_module import location_of, refuse_at, sets_of, symbols_in
from autotune.core.errors import SpaceError
from autotune.core.scripts.marks import SETS
from autotune.core.scripts.parametric import Choices, OpenKnob, ScriptConstraint, Site
from autotune.core.scripts.terms import CHOOSE, CONSTANT, VARIABLE, Term
from autotune.core.space import Value

KNOB, ALTERNATIVES = "transform.tune.knob", "transform.tune.alternatives"
CONSTRAIN, INCLUDE, PARAM = "transform.smt.constrain_params", "transform.include", "transform.param.constant"
PASSING = (INCLUDE, "transform.yield")  # these forward operands without using their value
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
Terms = dict[ir.Value, Term]


@dataclass
class ScriptWalk:
    """State of the walk through a parametric script.

    Attributes:
        source: Name of the file, for error messages.
        sequences: Named sequences of the script.
        numbers: Constraint operations of the script, with their numbers.
        knobs: Knobs collected so far, by name.
        constraints: Constraints collected so far.
        reached: Names of the sequences that are executed.
        set_by: Knobs that set attributes, each with the operation.
        used: Paths of choices under which a knob is used, by name of the knob.
    """

    source: str
    sequences: dict[str, ir.Operation]
    numbers: dict[ir.Operation, int]
    knobs: dict[str, OpenKnob] = field(default_factory=dict)
    constraints: list[ScriptConstraint] = field(default_factory=list)
    reached: dict[str, None] = field(default_factory=dict)
    set_by: list[tuple[str, ir.Operation]] = field(default_factory=list)
    used: dict[str, dict[Choices, None]] = field(default_factory=dict)
    _inside: list[str] = field(default_factory=list)  # stack of included sequences, to detect recursion

    def follow(self, name: str, choices: Choices, arguments: list[Term | None]) -> None:
        """Walk an included sequence, with the terms of its arguments that are known params.

        Raises:
            ScheduleError: The sequence includes itself.
        """
        sequence = self.sequences[name]
        if name in self._inside:
            raise refuse_at(self.source, sequence, f"a sequence must end, @{name} includes itself; break the circle")
        self.reached[name] = None
        self._inside.append(name)
        block = sequence.regions[0].blocks[0]
        pairs = zip(block.arguments, arguments, strict=False)
        self.walk(block, choices, {argument: term for argument, term in pairs if term is not None})
        self._inside.pop()

    def walk(self, block: ir.Block, choices: Choices, terms: Terms) -> None:
        """Walk the operations of a block."""
        for op in (each.operation for each in block.operations):
            self.read_uses(op, choices, terms)
            if op.name == KNOB:
                self.knob(op, choices, terms)
            elif op.name == ALTERNATIVES:
                self.alternatives(op, choices, terms)
            elif op.name == CONSTRAIN:
                self.constraint(op, choices, terms)
            elif op.name == INCLUDE:
                (name,) = symbols_in(op)
                if name in self.sequences:
                    self.follow(name, choices, [terms.get(operand) for operand in op.operands])
            else:
                self.other(op, choices, terms)

    def read_uses(self, op: ir.Operation, choices: Choices, terms: Terms) -> None:
        """Record the knobs that an operation uses, as params or as attributes."""
        check_op(op, self.source)
        for name in sets_of(op).values():
            self.set_by.append((name, op))
            self.use(Term(VARIABLE, value=name), choices)
        for operand in op.operands:
            if op.name not in PASSING and operand in terms:
                self.use(terms[operand], choices)

    def other(self, op: ir.Operation, choices: Choices, terms: Terms) -> None:
        """Walk the regions of any other operation, and the sequences that it refers to."""
        if op.name == PARAM and isinstance(value := op.attributes["value"], ir.IntegerAttr):
            terms[op.results[0]] = Term(CONSTANT, value=int(value))
        for inner in (inner for region in op.regions for inner in region.blocks):
            self.walk(inner, choices, terms)
        for name in symbols_in(op):
            if name in self.sequences:
                self.follow(name, choices, [])

    def knob(self, op: ir.Operation, choices: Choices, terms: Terms) -> None:
        """Record a ``transform.tune.knob``.

        Raises:
            ScheduleError: The options are malformed, or another knob of the same name has different options.
        """
        name = self.name_of(op)
        try:
            options = read_options(op.attributes["options"], op.attributes.get("selected", None))
        except SpaceError as error:
            raise refuse_at(self.source, op, f"knob {name!r} {error}") from error
        selected: Value | None = None
        if "selected" in op.attributes:
            selected = options.value_of(op.attributes["selected"])
            if selected is None:
                message = f"knob {name!r} must select one of its options, it selects {op.attributes['selected']}"
                raise refuse_at(self.source, op, f"{message}; add it or select another")
        site = self.site(op, choices)
        self.add(op, OpenKnob(name, options.values, options.attributes, selected, (site,)))
        terms[op.results[0]] = Term(VARIABLE, value=name)

    def alternatives(self, op: ir.Operation, choices: Choices, terms: Terms) -> None:
        """Record a ``transform.tune.alternatives`` and walk its regions."""
        count = len(op.regions)
        if len(op.operands):
            term = terms.get(op.operands[0])
            if term is None or term.op not in (VARIABLE, CONSTANT):
                raise refuse_at(
                    self.source, op, "a region must be chosen by a knob or a constant; this param is neither"
                )
        else:
            name = self.name_of(op)
            selected = op.attributes.get("selected_region_attr", None)
            chosen = int(selected) if selected is not None else None
            spelled = tuple(f"{number} : i32" for number in range(count))
            site = self.site(op, choices)
            self.add(op, OpenKnob(name, tuple(range(count)), spelled, chosen, (site,), regions=True))
            term = Term(VARIABLE, value=name)
            self.use(term, choices)
        yielded: list[list[Term | None]] = []
        region_paths: list[Choices] = []
        for number, region in enumerate(op.regions):
            block = region.blocks[0]
            region_paths.append((*choices, (str(term.value), number)) if term.op == VARIABLE else choices)
            if term.op == VARIABLE:
                self.walk(block, region_paths[-1], terms)
            elif term.value == number:
                self.walk(block, choices, terms)
            *_, end = block.operations
            yielded.append([terms.get(operand) for operand in end.operation.operands])
        for result, *each in zip(op.results, *yielded, strict=True):
            known = [branch_term for branch_term in each if branch_term is not None]
            if term.op == VARIABLE and len(known) == count:
                terms[result] = Term(CHOOSE, tuple(known), term.value)
            else:
                for branch_term, where in zip(each, region_paths, strict=True):
                    if branch_term is not None:
                        self.use(branch_term, where)

    def constraint(self, op: ir.Operation, choices: Choices, terms: Terms) -> None:
        """Record a ``transform.smt.constrain_params``.

        Raises:
            ScheduleError: The operation is not a constraint over knobs, or its results differ between includes.
        """
        asserted, results = read_constraint(op, terms, self.source)
        terms.update(zip(op.results, results, strict=True))
        constraint = ScriptConstraint(self.numbers[op], asserted, results, self.site(op, choices))
        if results and any(each.number == constraint.number and each.results != results for each in self.constraints):
            raise refuse_at(
                self.source,
                op,
                "a constraint that gives values must give the same wherever it is included; include it once",
            )
        if constraint not in self.constraints:
            self.constraints.append(constraint)

    def add(self, op: ir.Operation, knob: OpenKnob) -> None:
        """Add a knob, or another site of a knob of the same name.

        Raises:
            ScheduleError: The knob has different options or another selection than at its first site.
        """
        known = self.knobs.setdefault(knob.name, knob)
        message = f"knob {knob.name!r} must be the same at line {known.sites[0].line} and here"
        if (known.attributes, known.regions) != (knob.attributes, knob.regions):
            raise refuse_at(self.source, op, f"{message}, its options differ; rename one, or give both the same")
        if known.selected is not None and knob.selected not in (None, known.selected):
            raise refuse_at(self.source, op, f"{message}, it selects {known.selected} there and {knob.selected} here")
        selected = known.selected if known.selected is not None else knob.selected
        sites = tuple(dict.fromkeys((*known.sites, *knob.sites)))
        self.knobs[knob.name] = replace(known, selected=selected, sites=sites)

    def use(self, term: Term, choices: Choices) -> None:
        """Record the knobs whose value a used term depends on."""
        if term.op == VARIABLE:
            self.used.setdefault(str(term.value), {})[choices] = None
        if term.op == CHOOSE:
            for number, each in enumerate(term.operands):
                self.use(each, (*choices, (str(term.value), number)))
        else:
            for each in term.operands:
                self.use(each, choices)

    def in_order(self) -> list[OpenKnob]:
        """Return the knobs in the order of the text."""
        return sorted(self.knobs.values(), key=lambda knob: (knob.sites[0].line, knob.sites[0].column))

    def check_sets(self) -> None:
        """Reject attributes that refer to a knob the script does not define.

        Raises:
            ScheduleError: An attribute refers to an undefined knob.
        """
        for name, op in self.set_by:
            if name not in self.knobs:
                have = ", ".join(self.knobs) or "none"
                raise refuse_at(self.source, op, f"{SETS} must name a knob of the script, {name!r} is none of {have}")

    def name_of(self, op: ir.Operation) -> str:
        """Return the name of a knob or alternatives operation.

        Raises:
            ScheduleError: The name has characters that the command line does not support.
        """
        name = str(ir.StringAttr(op.attributes["name"]).value)
        if not NAME.fullmatch(name):
            raise refuse_at(self.source, op, f"a knob must be named by letters, digits, _, . and -, got {name!r}")
        return name

    def site(self, op: ir.Operation, choices: Choices) -> Site:
        """Return the source location of an operation and the choices that lead to it."""
        return Site(*location_of(op), choices)
