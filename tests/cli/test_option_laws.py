"""Every option of every verb, whatever it is given: it works, or is refused in one line with exit code 2."""

import numpy as np
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from autotune.cli import verbs
from autotune.cli.help import LISTS
from autotune.cli.together import NEEDS, WITHOUT
from autotune.core.errors import OptionError
from autotune.core.options import MOST_SEED, check_real, check_seed, check_whole, read_real, read_whole
from autotune.registry import plugged_options

NOWHERE = "/nonexistent/place"
# A call of every verb that ends at once for want of what it names: what is said before that is about the option.
VERBS = {
    "tune": ["nosuch"],
    "inspect": [NOWHERE],
    "replay": [NOWHERE],
    "regress": [NOWHERE],
    "compare": ["nosuch"],
    "demo": ["nosuch"],
    "show": ["nosuch"],
    "debug": ["nosuch"],
    "emit": [NOWHERE],
    "explain": [NOWHERE],
    "report": [NOWHERE],
    "generate": ["nosuch", "--prompt-tokens", "1"],
    "doctor": [NOWHERE],
    "lab record": ["nosuch"],
    "lab join": [NOWHERE],
    "lab copy": [NOWHERE, NOWHERE],
    "list": [NOWHERE],
    "import": [f"{NOWHERE}.onnx"],
}
NEEDED = {("replay", "--trials"): ["--retune"]}  # what an option must go with
WITHOUT_VALUES = {"demo"}  # but the name of a folder, which any text is
NO_NUMBERS = [
    "",
    " ",
    "1_0",
    "\u0663",
    "\uff11\uff12",
    "\u00b2",
    "nan",
    "inf",
    "-Infinity",
    "0x10",
    "1,0",
    "--",
    "9" * 5000,
]
NO_WHOLES = [*NO_NUMBERS, "1.5", "1e3", ".5"]
BEYOND = ["-1", "-" + "9" * 24, "9" * 24]
TEXTS = [
    "",
    " ",
    "\0"[:0],
    "-1",
    "a" * 5000,
    "../..",
    "/",
    "/dev/null",
    "=",
    ",",
    "a=b,=",
    "%s{}\\",
    "\u202e\x1b[31m",
    "\udcff",
]


def verb_of(words):
    """The command that one or two words name."""
    command = typer.main.get_command(verbs.app)
    for word in words.split():
        command = command.commands[word]
    return command


def options():
    """Every option that takes a value: verb, flag, Python type, and the name that laws call it by."""
    for verb in VERBS:
        command = verb_of(verb)
        for parameter in command.params:
            if parameter.opts[0].startswith("-") and not parameter.is_flag and parameter.name != "help":
                kind = parameter.type_descriptor.annotation
                yield pytest.param(verb, parameter.opts[0], str(kind), id=f"{verb}{parameter.opts[0]}")


OPTIONS = list(options())
NUMBERS = [one for one in OPTIONS if "int" in one.values[2] or "float" in one.values[2]]
OTHERS = [one for one in OPTIONS if one not in NUMBERS]


def test_every_verb_is_asked():
    assert list(VERBS) != []
    shown = {name: each for name, each in verb_of("").commands.items() if not each.hidden}
    own = {f"lab {name}" for name in shown.pop("lab").commands}
    assert set(VERBS) | WITHOUT_VALUES == set(shown) | own
    assert {one.values[1] for one in NUMBERS} >= {"--trials", "--seconds", "--seed", "--timeout", "--factor", "--top-k"}


@pytest.mark.parametrize(("verb", "flag", "kind"), NUMBERS)
def test_what_is_no_number_is_refused_by_name(refused, verb, flag, kind):
    for text in NO_WHOLES if "int" in kind else NO_NUMBERS:
        refused(*verb.split(), *VERBS[verb], f"{flag}={text}", words=flag)


@pytest.mark.parametrize(("verb", "flag", "kind"), NUMBERS)
def test_numbers_beyond_what_can_be_are_refused_by_name(refused, verb, flag, kind):
    for text in BEYOND:
        named = f"{flag.strip('-').replace('-', '_')} must be from"
        refused(*verb.split(), *VERBS[verb], *NEEDED.get((verb, flag), []), f"{flag}={text}", words=named)


@pytest.mark.parametrize(("verb", "flag", "kind"), NUMBERS)
def test_a_number_in_range_is_not_what_is_refused(refused, verb, flag, kind):
    for text in ("1.05",) if flag == "--factor" else ("1", "+1", "001"):
        said = refused(*verb.split(), *VERBS[verb], f"{flag}={text}")
        assert " must be from" not in said
        assert "Invalid value" not in said


@pytest.mark.parametrize(("verb", "flag", "kind"), OTHERS)
def test_any_text_is_one_line(refused, verb, flag, kind):
    for text in TEXTS:
        extra = (text,) if "tuple" in kind else ()
        refused(*verb.split(), *VERBS[verb], f"{flag}={text}" if not extra else flag, *(extra * 2))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "text", ["", "a" * 5000, "\x1b[31m\n\r", "\udcff", "matmul,m=1_0", "matmul,m=\u0663", "matmul,m="]
)
def test_any_argument_is_one_line(refused, verb, text):
    refused(*verb.split(), text)


@pytest.mark.parametrize("text", ["", "a" * 5000, "\x1b[31m\n\r", "\udcff"])
def test_any_key_of_a_trial_is_one_line(refused, text):
    refused("replay", text, "--store", NOWHERE)


@given(st.text(max_size=12) | st.integers().map(str) | st.floats().map(str))
def test_numbers_are_read_as_everybody_reads_them(text):
    for read, kind in ((read_whole, int), (read_real, float)):
        found = outcome(read, text)
        if isinstance(found, str):
            assert "\n" not in found
            assert "must be a" in found
        else:
            assert text.isascii()
            assert "_" not in text
            assert found == kind(text)


@given(st.integers() | st.floats() | st.text(max_size=3) | st.none() | st.booleans() | st.binary())
def test_laws_hold_for_anything_python_has(value):
    for check in (check_seed, lambda n: check_whole("n", n, 1, 10), lambda x: check_real("x", x, 0.0, 1.0)):
        found = outcome(check, value)
        if isinstance(found, str):
            assert "\n" not in found
            assert " must be " in found
        else:
            assert type(value) in (int, float)
            assert 0 <= value <= MOST_SEED


def outcome(call, argument):
    """What a call gives, or what it says where it refuses."""
    try:
        return call(argument)
    except (ValueError, OptionError) as error:
        return str(error)


def test_seeds_and_counts_of_numpy_are_numbers():
    check_seed(np.uint32(MOST_SEED))
    check_whole("n", np.int64(3), 1, 10)
    check_real("x", np.float32(0.5), 0.0, 1.0)


@pytest.mark.parametrize(("verb", "flag", "kind"), [one for one in OPTIONS if one.values[1] not in LISTS])
def test_an_empty_text_is_no_value_of_an_option(refused, verb, flag, kind):
    values = ("", "") if "tuple" in kind else ("",)
    refused(*verb.split(), *VERBS[verb], flag, *values, words=f"{flag} must have a value, got an empty text")


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("doctor", "demo")])
def test_an_empty_text_names_nothing(refused, verb):
    refused(*verb.split(), "", words="must have a value, got an empty text")


IDLE = [
    (("replay", NOWHERE, "--trials", "3"), "--trials must go with --retune"),
    (("replay", NOWHERE, "-o", "x"), "--output must go with --emit or --retune or --store"),
    (("replay", NOWHERE, "--family", "x.py:Y"), "--family must go with --store"),
    (("replay", NOWHERE, "--emit", "asm", "--retune"), "--retune has no effect beside --emit"),
    (("replay", NOWHERE, "--emit", "asm", "--store", "s"), "--store has no effect beside --emit"),
    (("replay", "abc", "--store", NOWHERE, "--emulate"), "--emulate, --json and --payload are of bundles"),
    (("show", "nosuch", "--diff", "a", "b", "--family", "x"), "--family has no effect beside --diff"),
    (("inspect", NOWHERE, "--why", "--top", "3"), "--top has no effect beside --why"),
    (("doctor", "--quick"), "--quick must go with --self"),
    (("doctor", "--baseline", "loops"), "--baseline must go with --self"),
    (("doctor", "--self", "--noise"), "--noise has no effect beside --self"),
    (("doctor", "--self", "--threads", "2"), "--threads has no effect beside --self"),
    (("doctor", "--write", NOWHERE, "--json"), "--json has no effect beside --write"),
    (("replay", NOWHERE, "--target", "skylake", "--timeout", "9"), "--timeout has no effect beside --target"),
    (("replay", NOWHERE, "--target", "skylake", "--retune"), "--retune has no effect beside --target"),
    (("compare", "nosuch", "--target", "vulkan", "--threads", "2"), "--threads has no effect beside --target"),
    (("explain", NOWHERE, "--model", "--steps"), "--steps has no effect beside --model"),
    (("explain", NOWHERE, "--against", "torch", "--steps"), "--steps has no effect beside --against"),
    (("explain", NOWHERE, "--baseline", "loops"), "--baseline must go with --steps"),
    (("tune", "nosuch", "--weight", "0.3"), "weight must go with objective seconds,joules"),
]


@pytest.mark.parametrize(("words", "said"), IDLE)
def test_an_option_without_effect_is_refused(refused, words, said):
    refused(*words, words=said)


def test_options_that_are_refused_together_are_options():
    for table in (NEEDS, WITHOUT):
        for verb, each in table.items():
            flags = {flag for parameter in verb_of(verb).params for flag in parameter.opts}
            assert flags >= {*each, *(other for others in each.values() for other in others)}


def test_parameters_that_plug_ins_ignore_are_those_of_their_verbs():
    for each in plugged_options(pytest.fail):
        names = {parameter.name for parameter in verb_of(each.verb).params}
        assert names >= set(each.ignores), each.verb


@pytest.mark.parametrize("name", [".", "..", "a."])
def test_a_name_at_the_end_of_a_refusal_keeps_its_period(refused, name):
    refused("inspect", NOWHERE, "--store", name, words=f"--store {name}; see --help")
