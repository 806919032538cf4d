"""The walk through an open script, as the interpreter would take it, with every choice open.

It begins at the entry, follows ``include`` and matchers, and remembers which regions of ``transform.tune.alternatives``
it is in: a knob counts where its value is read. Params are followed to the knobs they come from.
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
from autotune.core.scripts.parametric import OpenKnob, ScriptConstraint, Site, Taken
from autotune.core.scripts.terms import CHOOSE, CONSTANT, GIVEN, Term
from autotune.core.space import Value

KNOB, ALTERNATIVES = "transform.tune.knob", "transform.tune.alternatives"
CONSTRAIN, INCLUDE, PARAM = "transform.smt.constrain_params", "transform.include", "transform.param.constant"
PASSING = (INCLUDE, "transform.yield")  # their operands are read elsewhere
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
Terms = dict[ir.Value, Term]


@dataclass
class ScriptWalk:
    """What is found of a script while it is walked.

    Attributes:
        source: Name of the file, for messages.
        sequences: Named sequences of the script.
        numbers: Constraints of the script, numbered.
        knobs: Knobs so far, by name.
        constraints: Constraints so far.
        reached: Names of the sequences that are run.
        set_by: Knobs that give attributes a value, with the op.
        used: Choices that lead to where a knob's value is read, by its name.
    """

    source: str
    sequences: dict[str, ir.Operation]
    numbers: dict[ir.Operation, int]
    knobs: dict[str, OpenKnob] = field(default_factory=dict)
    constraints: list[ScriptConstraint] = field(default_factory=list)
    reached: dict[str, None] = field(default_factory=dict)
    set_by: list[tuple[str, ir.Operation]] = field(default_factory=list)
    used: dict[str, dict[Taken, None]] = field(default_factory=dict)
    _inside: list[str] = field(default_factory=list)  # sequences that the walk is in

    def follow(self, name: str, taken: Taken, arguments: list[Term | None]) -> None:
        """Walk a sequence that is given some params.

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
        self.walk(block, taken, {argument: term for argument, term in pairs if term is not None})
        self._inside.pop()

    def walk(self, block: ir.Block, taken: Taken, terms: Terms) -> None:
        """Walk the ops of a block."""
        for op in (each.operation for each in block.operations):
            self.read_uses(op, taken, terms)
            if op.name == KNOB:
                self.knob(op, taken, terms)
            elif op.name == ALTERNATIVES:
                self.alternatives(op, taken, terms)
            elif op.name == CONSTRAIN:
                self.constraint(op, taken, terms)
            elif op.name == INCLUDE:
                (name,) = symbols_in(op)
                if name in self.sequences:
                    self.follow(name, taken, [terms.get(operand) for operand in op.operands])
            else:
                self.other(op, taken, terms)

    def read_uses(self, op: ir.Operation, taken: Taken, terms: Terms) -> None:
        """Note which knobs an op reads, as params or as attributes."""
        check_op(op, self.source)
        for name in sets_of(op).values():
            self.set_by.append((name, op))
            self.use(Term(GIVEN, value=name), taken)
        for operand in op.operands:
            if op.name not in PASSING and operand in terms:
                self.use(terms[operand], taken)

    def other(self, op: ir.Operation, taken: Taken, terms: Terms) -> None:
        """Any other op: what is inside it, and the sequences that it calls."""
        if op.name == PARAM and isinstance(value := op.attributes["value"], ir.IntegerAttr):
            terms[op.results[0]] = Term(CONSTANT, value=int(value))
        for inner in (inner for region in op.regions for inner in region.blocks):
            self.walk(inner, taken, terms)
        for name in symbols_in(op):
            if name in self.sequences:
                self.follow(name, taken, [])

    def knob(self, op: ir.Operation, taken: Taken, terms: Terms) -> None:
        """A ``transform.tune.knob``.

        Raises:
            ScheduleError: The options cannot be read, or another knob of its name has others.
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
        site = self.site(op, taken)
        self.add(op, OpenKnob(name, options.values, options.attributes, selected, (site,)))
        terms[op.results[0]] = Term(GIVEN, value=name)

    def alternatives(self, op: ir.Operation, taken: Taken, terms: Terms) -> None:
        """A ``transform.tune.alternatives``, and its regions."""
        count = len(op.regions)
        if len(op.operands):
            term = terms.get(op.operands[0])
            if term is None or term.op not in (GIVEN, CONSTANT):
                raise refuse_at(
                    self.source, op, "a region must be chosen by a knob or a constant; this param is neither"
                )
        else:
            name = self.name_of(op)
            selected = op.attributes.get("selected_region_attr", None)
            chosen = int(selected) if selected is not None else None
            spelled = tuple(f"{number} : i32" for number in range(count))
            site = self.site(op, taken)
            self.add(op, OpenKnob(name, tuple(range(count)), spelled, chosen, (site,), regions=True))
            term = Term(GIVEN, value=name)
            self.use(term, taken)
        given: list[list[Term | None]] = []
        reached: list[Taken] = []
        for number, region in enumerate(op.regions):
            block = region.blocks[0]
            reached.append((*taken, (str(term.value), number)) if term.op == GIVEN else taken)
            if term.op == GIVEN:
                self.walk(block, reached[-1], terms)
            elif term.value == number:
                self.walk(block, taken, terms)
            *_, end = block.operations
            given.append([terms.get(operand) for operand in end.operation.operands])
        for result, *each in zip(op.results, *given, strict=True):
            known = [one for one in each if one is not None]
            if term.op == GIVEN and len(known) == count:
                terms[result] = Term(CHOOSE, tuple(known), term.value)
            else:
                for one, where in zip(each, reached, strict=True):
                    if one is not None:
                        self.use(one, where)

    def constraint(self, op: ir.Operation, taken: Taken, terms: Terms) -> None:
        """A ``transform.smt.constrain_params``.

        Raises:
            ScheduleError: The op is no constraint of knobs; or its results differ where it is included again.
        """
        asserted, results = read_constraint(op, terms, self.source)
        terms.update(zip(op.results, results, strict=True))
        constraint = ScriptConstraint(self.numbers[op], asserted, results, self.site(op, taken))
        if results and any(each.number == constraint.number and each.results != results for each in self.constraints):
            raise refuse_at(
                self.source,
                op,
                "a constraint that gives values must give the same wherever it is included; include it once",
            )
        if constraint not in self.constraints:
            self.constraints.append(constraint)

    def add(self, op: ir.Operation, knob: OpenKnob) -> None:
        """Add a knob, or one more site of a knob of its name.

        Raises:
            ScheduleError: The knob has other options or another selection than before.
        """
        found = self.knobs.setdefault(knob.name, knob)
        message = f"knob {knob.name!r} must be the same at line {found.sites[0].line} and here"
        if (found.attributes, found.regions) != (knob.attributes, knob.regions):
            raise refuse_at(self.source, op, f"{message}, its options differ; rename one, or give both the same")
        if found.selected is not None and knob.selected not in (None, found.selected):
            raise refuse_at(self.source, op, f"{message}, it selects {found.selected} there and {knob.selected} here")
        selected = found.selected if found.selected is not None else knob.selected
        sites = tuple(dict.fromkeys((*found.sites, *knob.sites)))
        self.knobs[knob.name] = replace(found, selected=selected, sites=sites)

    def use(self, term: Term, taken: Taken) -> None:
        """Note that the value of a term is read somewhere."""
        if term.op == GIVEN:
            self.used.setdefault(str(term.value), {})[taken] = None
        if term.op == CHOOSE:
            for number, each in enumerate(term.operands):
                self.use(each, (*taken, (str(term.value), number)))
        else:
            for each in term.operands:
                self.use(each, taken)

    def in_order(self) -> list[OpenKnob]:
        """The knobs in the order of the text."""
        return sorted(self.knobs.values(), key=lambda knob: (knob.sites[0].line, knob.sites[0].column))

    def check_sets(self) -> None:
        """Refuse attributes that are to be set by a knob that there is not.

        Raises:
            ScheduleError: There is such an attribute.
        """
        for name, op in self.set_by:
            if name not in self.knobs:
                have = ", ".join(self.knobs) or "none"
                raise refuse_at(self.source, op, f"{SETS} must name a knob of the script, {name!r} is none of {have}")

    def name_of(self, op: ir.Operation) -> str:
        """The name of a choice.

        Raises:
            ScheduleError: The name is none that a command line can spell.
        """
        name = str(ir.StringAttr(op.attributes["name"]).value)
        if not NAME.fullmatch(name):
            raise refuse_at(self.source, op, f"a knob must be named by letters, digits, _, . and -, got {name!r}")
        return name

    def site(self, op: ir.Operation, taken: Taken) -> Site:
        """Where an op is."""
        return Site(*location_of(op), taken)
