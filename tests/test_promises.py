"""What tables of failures promise is a test each: a row without one fails here, as does a test that is gone."""

import importlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import pytest

from autotune.core.host.machine import this_machine
from autotune.core.trial import Outcome

ROOT = Path(__file__).parent.parent
DEAD_KNOBS = "store/test_sharing.py test_same_code_is_never_timed_twice_and_dead_knobs_are_named"
FAULTS = "worker/test_worker.py test_fault_is_an_outcome_and_the_next_candidate_is_fine"
SANDBOX = "worker/test_sandbox.py test_machine_code_is_refused_what_no_candidate_needs_and_the_sweep_lives"
KILLED = (
    "store/test_journal.py test_killed_writer_leaves_every_finished_trial_and_no_lock",
    "store/test_journal.py test_torn_last_line_is_cut_off_and_kept_aside",
    "tuning/test_tune.py test_interrupt_leaves_what_was_finished_in_the_store_and_resumes",
)
FULL_DISK = (
    "store/test_full_disk.py test_a_disk_that_is_full_at_the_start_is_waited_for",
    "store/test_journal.py test_full_disk_pauses_and_goes_on",
)
MEMORY = (
    "cli/test_surroundings.py test_a_good_bundle_is_right_under_a_limit_of_memory",
    "cli/test_surroundings.py test_too_little_memory_for_the_program_itself_is_one_line",
)
STRAYS = (
    "worker/test_faults.py test_nothing_that_candidates_start_outlives_them",
    "worker/test_faults.py test_faulty_candidate_of_a_sweep_has_its_outcome",
)
START = "contrib/postgres/test_postgres.py test_what_is_wrong_is_one_line_without_the_password"
FOREIGN = (
    "contrib/postgres/test_postgres.py test_database_of_something_else_is_refused_and_left_alone",
    "contrib/postgres/test_postgres.py test_studies_of_somebody_else_are_refused",
    "contrib/postgres/test_postgres.py test_another_version_is_refused_in_one_line",
)
OUTAGE = (
    "contrib/postgres/test_outage.py test_restarted_server_is_waited_for_and_claims_are_kept",
    "contrib/postgres/test_outage.py test_full_server_is_waited_for",
    "contrib/postgres/test_outage.py test_no_finished_trial_is_lost_or_repeated_whatever_dies",
)
TABLES = {  # by the page and the head of the table: the tests of each row, by its first cell
    ("tune.md", "what happens"): {
        "the tuner is killed (`kill -9`, power)": KILLED,
        "Ctrl-C, at any moment, also in the first second": (
            "cli/test_interrupts.py test_ctrl_c_at_any_moment_is_one_line_and_leaves_nothing",
        ),
        "SIGTERM, as of a scheduler or container that ends, or SIGHUP, as of a terminal that is gone": (
            "cli/test_interrupts.py test_other_signals_that_end_a_command_leave_nothing_either",
        ),
        "a line of the store's file is there twice, missing or moved, also in a sweep: an editor, a copy, a merge": (
            "store/test_damage.py test_lines_that_do_not_belong_together_are_refused_in_one_line",
        ),
        "the disk is full, at the start, during a sweep or at its end": FULL_DISK,
        "the system limits memory (`ulimit -v`)": MEMORY,
        "two tuners, one store file": (
            "store/test_sharing.py test_two_tuners_on_one_store_share_the_work",
            "store/test_sharing.py test_two_tuners_of_one_store_have_one_budget_and_choose_from_all_trials",
        ),
        "another MLIR, CPU or payload text": (
            "tuning/test_tune.py test_trials_of_another_compiler_are_kept_apart_and_counted",
        ),
        "a candidate forks, flees to another session, floods stdout": STRAYS,
        "a knob that changes nothing": (DEAD_KNOBS,),
        "the machine is noisy": ("tuning/test_choose.py test_simpler_one_wins_where_it_is_well_tied",),
    },
    ("see.md", "outcome"): {
        "duplicate": (DEAD_KNOBS,),
        "constraint": ("test_front_door.py test_config_that_breaks_a_law_is_an_outcome_and_not_compiled",),
        "transform-failed": (FAULTS,),
        "verify-failed": (FAULTS,),
        "lowering-failed, jit-failed": (FAULTS,),
        "crashed": (FAULTS,),
        "timed-out": (FAULTS,),
        "out-of-memory": ("worker/test_worker.py test_arrays_that_do_not_fit_the_memory_are_an_outcome",),
        "wrong-result": (FAULTS,),
        "non-finite": (FAULTS,),
        "noisy": ("worker/test_worker.py test_a_program_whose_halves_disagree_is_noisy_and_says_by_how_much",),
    },
    ("database.md", "what happens"): {
        "no server answers, no such database, a wrong password": (START,),
        "psycopg is not installed": ("contrib/postgres/test_postgres.py test_missing_driver_names_the_extra",),
        "the database holds something else, or tables of another version of Optuna": FOREIGN,
        "the server goes away in the middle of a sweep, or its disk is full": OUTAGE,
        "the answer to a write is lost": (
            "contrib/postgres/test_outage.py test_answer_that_is_lost_does_not_record_a_trial_twice",
        ),
        "a tuner is killed": ("contrib/postgres/test_postgres.py test_claims_of_a_killed_tuner_are_free",),
    },
    ("trust.md", "mechanism"): {"Landlock": (SANDBOX,), "seccomp": (SANDBOX,)},
}


def rows(page, head):
    """First cells of the table that begins with a head."""
    lines = iter((ROOT / "docs/how-to" / page).read_text().splitlines())
    assert any(line.startswith(f"| {head} |") for line in lines)
    next(lines)
    return [line.split(" | ")[0].removeprefix("| ") for line in iter(lambda: next(lines, ""), "")]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table[0])
def test_every_row_of_a_table_of_failures_has_a_test(table):
    assert rows(*table) == list(TABLES[table])


@pytest.mark.parametrize("place", sorted({each for table in TABLES.values() for row in table.values() for each in row}))
def test_the_test_of_a_promise_is_there(place):
    path, name = place.split()
    assert f"def {name}(" in (ROOT / "tests" / path).read_text()


def test_every_outcome_of_a_trial_that_fails_is_a_row():
    named = {name for row in TABLES["see.md", "outcome"] for name in row.split(", ")}
    assert named == set(get_args(Outcome)) - {"ok"}


@pytest.fixture
def faults(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "results")
    return importlib.import_module("faults")


def test_table_of_faults_counts_every_end_of_a_test_and_names_the_machine(faults, tmp_path):
    ends = ("", "<failure/>", "<error/>", "<skipped/>", "<failure/><error/>")
    cases = "".join(f'<testcase file="a.py" name="t{i}">{end}</testcase>' for i, end in enumerate(ends))
    (tmp_path / "r.xml").write_text(f'<testsuites><testsuite>{cases}<testcase file="b.py"/></testsuite></testsuites>')
    counted = faults.count(faults.read_report(tmp_path / "r.xml"), ["a.py", "c.py"])
    assert counted == {"injected": 4, "kept": 1, "skipped": 1}
    found = {"machine": asdict(this_machine()), "walls": ["landlock"], "load": 1.0, "seconds": 2.0}
    found |= {"versions": {"python": "3", "compiler": "mlir"}, "groups": {"harm": {"promise": "none", **counted}}}
    (tmp_path / "faults.json").write_text(json.dumps(found))
    said = faults.part(tmp_path / "faults.json")
    assert this_machine().cpu in said
    assert "| harm | 4 | 1 | 1 | none |" in said


def test_files_of_injected_faults_are_there(faults):
    assert [file for files, _ in faults.GROUPS.values() for file in files if not (ROOT / file).is_file()] == []
