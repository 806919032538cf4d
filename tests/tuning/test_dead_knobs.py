"""Knobs in the script itself: what can be turned is an op, everything is an attribute, and both say the config."""

import re

import pytest
from compile_support import apply_script

from autotune.compiler.ir.module import context, parse
from autotune.compiler.tasks.partition import partition
from autotune.core.host.machine import this_machine
from autotune.core.scripts.assembly import assemble, write_step
from autotune.core.scripts.marks import KNOBS
from autotune.registry import family_for, load_payload

SPECS = ("matmul,m=300,n=96,k=64", "attention,heads=2,seq=32,d=16", "gelu,rows=8,cols=48", "layer_norm,rows=16,cols=64")
KNOB = re.compile(r'^ *(%\w+) = transform\.tune\.knob<"(\w+)"> = (\d+) from options = \[([\d, ]+)\].*\n', re.M)


def written(spec):
    """Every task of a payload with its default config: payload, config, space and script."""
    machine = this_machine()
    for task in partition(load_payload(spec)).tasks:
        family = family_for(task)
        config, space = family.default(task, machine), family.space(task, machine)
        yield task.payload, config, space, assemble([write_step(task, family, config, machine, alone=True)])


def transformed(text, script):
    with context():
        module = parse(text, "payload")
        apply_script(module, script)
        return str(module)


@pytest.mark.parametrize("spec", SPECS)
def test_knob_ops_hold_the_config_and_its_options(spec):
    for _, config, space, script in written(spec):
        for _, name, value, options in KNOB.findall(script):
            assert config[name] == int(value)
            assert [int(o) for o in options.split(",")] == list(
                next(knob.values for knob in space.knobs if knob.name == name)
            )


@pytest.mark.parametrize("spec", SPECS)
def test_knob_ops_transform_as_the_numbers_they_hold(spec):
    for payload, _, _, script in written(spec):
        plain = KNOB.sub("", script)
        for handle, _, value, _ in KNOB.findall(script):
            plain = re.sub(rf"\[([^\]\n]*){handle}\b([^\]\n]*)\] : \(!transform.any_op, !transform.param<i64>\)",
                           rf"[\g<1>{value}\2] : (!transform.any_op)", plain)  # fmt: skip
        assert "transform.tune.knob" not in plain
        assert transformed(payload.text, script) == transformed(payload.text, plain)


def test_there_are_knob_ops_in_every_family():
    scripts = "".join(script for spec in SPECS for _, _, _, script in written(spec))
    assert {"rows", "register_m"} <= {name for _, name, _, _ in KNOB.findall(scripts)}


def test_turning_a_knob_changes_the_program():
    ((payload, _, _, script),) = written("layer_norm,rows=16,cols=64")
    ((_, name, value, options),) = KNOB.findall(script)
    other = next(o for o in options.split(", ") if o != value)
    turned = script.replace(f'knob<"{name}"> = {value}', f'knob<"{name}"> = {other}')
    assert transformed(payload.text, turned) != transformed(payload.text, script)


@pytest.mark.parametrize("spec", SPECS)
def test_attributes_of_the_sequence_hold_the_whole_config(spec):
    for _, config, _, script in written(spec):
        with context():
            sequence = parse(script, "script").body.operations[0]
            found = {a.name: a.attr for a in sequence.attributes[KNOBS]}
            assert {name: attribute.value for name, attribute in found.items()} == dict(config)
