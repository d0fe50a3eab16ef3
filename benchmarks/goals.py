"""Goals of the benchmarks: `benchmarks/results/goals.toml`, each judged by the result it names.

"Reached" is computed: a goal names its figure and its limit, and `judged` compares them.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from benchmarks import result_files
from benchmarks.result_files import FOLDER, Result, ResultError, Subject

FILE = FOLDER / "goals.toml"


class Goal(BaseModel):
    """One row of the table of goals.

    goal: in words; `{limit}` stands for the limit. figure: paths of figures (`RESULT.KEY.KEY`), all
    of which have to keep the limit. Of each, `divided_by` and `minus` take the ratio to another
    figure, or the difference from it. unit: `%` and `points` show a share as percent. beside:
    figures to compare with, by what they are called. reason: why the goal is missed, or why nothing
    was measured. command: what would measure it, where nothing was.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    subject: Subject
    goal: str
    figure: list[str] = []
    divided_by: str = ""
    minus: str = ""
    at_most: float | None = None
    at_least: float | None = None
    equals: bool | None = None
    unit: str = ""
    beside: dict[str, str] = {}
    reason: str = ""
    command: str = ""

    @model_validator(mode="after")
    def _is_whole(self) -> "Goal":
        limits = [self.at_most, self.at_least, self.equals]
        if self.figure and sum(limit is not None for limit in limits) != 1:
            raise ValueError("a goal with a figure has one of at_most, at_least and equals")
        if self.figure and self.command:
            raise ValueError("the command is the result's")
        if not self.figure and not (self.reason and self.command):
            raise ValueError("a goal without a figure has a reason and the command that measures it")
        if self.limit is not None and "{limit}" not in self.goal:
            raise ValueError("the words of the goal have no {limit}")
        return self

    @property
    def limit(self) -> float | None:
        return self.at_least if self.at_most is None else self.at_most


@dataclass(frozen=True)
class JudgedGoal:
    """A goal with its figures and its verdict: reached, missed, or not measured.

    results: names of the result files that hold the figures.
    """

    goal: Goal
    figures: tuple[float | bool, ...]
    beside: Mapping[str, object]
    verdict: str
    results: tuple[str, ...]


def read(path: Path = FILE) -> list[Goal]:
    """All goals. Raises ResultError with the name of an invalid goal."""
    rows = tomllib.loads(path.read_text(encoding="utf-8"))["goal"]
    goals = []
    for number, row in enumerate(rows, start=1):
        try:
            goals.append(Goal.model_validate(row))
        except ValidationError as error:
            named = row.get("goal", f"number {number}")
            told = result_files.faults(error)
            raise ResultError(f"{path.name}, {named!r}: {told}.") from None
    return goals


def judged(goal: Goal, results: Mapping[str, Result]) -> JudgedGoal:
    """Judges a goal. Raises ResultError if a figure is missing, or if a missed goal lacks a reason
    or a reached one has a reason."""
    if not goal.figure:
        return JudgedGoal(goal, (), {}, "not measured", ())
    taken = tuple(_taken(goal, path, results) for path in goal.figure)
    reached = all(_holds(goal, value) for value in taken)
    if reached == bool(goal.reason):
        says = "is reached and has a reason for a miss" if reached else "is missed without a reason"
        raise ResultError(f"{FILE.name}: {goal.goal!r} {says}.")
    compared = {name: result_files.figure(results, path) for name, path in goal.beside.items()}
    names = tuple(dict.fromkeys(path.partition(".")[0] for path in goal.figure))
    return JudgedGoal(goal, taken, compared, "reached" if reached else "missed", names)


def _taken(goal: Goal, path: str, results: Mapping[str, Result]) -> float | bool:
    value = result_files.figure(results, path)
    if goal.equals is None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ResultError(f"{path} is no number: {value!r}.")
    if goal.divided_by:
        return value / result_files.figure(results, goal.divided_by)
    if goal.minus:
        return value - result_files.figure(results, goal.minus)
    return value


def _holds(goal: Goal, taken: float | bool) -> bool:
    if goal.equals is not None:
        return taken is goal.equals
    if goal.at_most is not None:
        return taken <= goal.at_most + 1e-9
    return taken >= (goal.at_least or 0.0) - 1e-9
