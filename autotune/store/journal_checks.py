"""Whether the lines of a journal belong together: what editors, copies and merges of files do to one is refused.

Studies and trials have no numbers in a journal, they are counted. A line that is missing, moved or there twice would
make trials of other studies of all that follow it, or count trials twice, without an error of Optuna's.
"""

from typing import Any

from autotune.store.header import WAY_OUT
from autotune.store.sweep import study_name

CREATE_STUDY, DELETE_STUDY, STUDY_USER, STUDY_SYSTEM, CREATE_TRIAL = range(5)  # codes of Optuna's operations
OF_STUDY, OF_TRIAL = (DELETE_STUDY, STUDY_USER, STUDY_SYSTEM, CREATE_TRIAL), range(5, 10)


class JournalChecks:
    """What a journal's lines said so far, as far as it bears on the next one."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}  # lines that may stand once, by hash: their numbers
        self._names: dict[int, str] = {}
        self._studies = 0
        self._trials = 0

    def fault(self, line: bytes, record: dict[str, Any], number: int) -> str:
        """What is wrong with a line behind those before; empty if nothing is.

        Two processes may create the same study at once, in lines of their own; a line that is there twice is a copy, as
        it holds the name of its writer, and that of a trial its time.

        Args:
            line: The line.
            record: What it holds.
            number: Number of the line, from 1.
        """
        code = record["op_code"]
        if code in {CREATE_STUDY, CREATE_TRIAL} and (first := self._seen.setdefault(hash(line), number)) != number:
            return f"lines of a store must differ; line {number} is line {first} again; delete one, or {WAY_OUT}"
        if code in OF_STUDY and not 0 <= record["study_id"] < self._studies:
            return missing(number, "study")
        if code in OF_TRIAL and not 0 <= record["trial_id"] < self._trials:
            return missing(number, "trial")
        if code == CREATE_STUDY and record["study_name"] not in self._names.values():
            self._names[self._studies] = record["study_name"]
            self._studies += 1
        elif code == DELETE_STUDY:
            self._names.pop(record["study_id"], None)
        elif code == STUDY_USER and not is_named(record["user_attr"].get("sweep"), self._names.get(record["study_id"])):
            return (
                f"sweeps of a store must lie in studies of their name; line {number} is moved; restore it, or {WAY_OUT}"
            )
        elif code == CREATE_TRIAL:
            self._trials += 1
            if record["study_id"] == 0:
                return f"a store's first study must be empty; line {number} is of another file; delete it, or {WAY_OUT}"
        return ""


def missing(number: int, kind: str) -> str:
    """The sentence on a line whose study or trial no line before it has begun."""
    return f"a {kind} must begin before its records; that of line {number} is missing; restore it, or {WAY_OUT}"


def is_named(sweep: Any, name: str | None) -> bool:  # noqa: ANN401 - of a file
    """Whether what a study says of its sweep is what its name says."""
    if sweep is None or name is None:
        return True
    return study_name(sweep["payload"], sweep["task"], sweep["identity"]) == name
