"""What the records of a journal add up to: incidents, checkpoints, rollbacks, numbers of steps."""

from __future__ import annotations

from operator import lt
from typing import IO, NamedTuple

from klarm.journal.incident import IncidentRecord, acknowledged_after, add_event
from klarm.journal.records import Bound, Checkpoint, Finish, Record, Resume, Started, Step
from klarm.journal.rollbacks import Limit
from klarm.journal.search import steps_back
from klarm.metrics import Origin
from klarm.speech import learn_all
from klarm.types import Command, Event


class Rollback(NamedTuple):
    """Training went back to `step`: the steps from there to `last` are rolled back."""

    step: int
    last: int


class Totals:
    """The totals of the records that were added so far. The reader of a journal adds them."""

    def __init__(self, run: str) -> None:
        """Begin with nothing. `run` is the name of the run unless the first line has another."""
        self.head: Started | None = None  # the first readable run line
        self.run = run
        self.began = 0.0
        self.incidents: dict[str, IncidentRecord] = {}  # by id, in the order in which they opened
        self.checkpoints: list[tuple[int, str]] = []  # without those rolled back
        self.rollbacks: list[Rollback] = []
        self.origins: dict[str, Origin] = {}  # of metrics whose key differs from their name
        self.first_step: int | None = None
        self.last_step: int | None = None  # that was not rolled back
        self.steps = 0  # how many there are, without those rolled back
        self.rolled_back = 0  # how many steps were rolled back
        self.commands: set[str] = set()  # the keys of the commands that the run has applied
        self.finished = False  # whether the last process recorded that it finished
        # How the last process that logged a step ended; empty if training ended by itself.
        self.outcome = ""
        self.detectors: set[str] = set()  # the names of detectors that any process had enabled
        self._in_order = True  # every lower step so far followed a resume line

    @property
    def hidden_events(self) -> int:
        """How many events the damaged lines so far may hide, at most."""
        return 0

    def next_seq(self, incident: str) -> int:
        """Return the `seq` of the next event of an incident: one that no event ever had."""
        known = self.incidents.get(incident)
        return (0 if known is None else known.last.seq) + self.hidden_events + 1

    def _add(self, record: Record, number: int, begin: int, file: IO[bytes]) -> None:
        """Add a record: the line with this number, which begins at this offset of the file."""
        if isinstance(record, Event):
            add_event(self.incidents, record)
        elif isinstance(record, Step):
            self._add_step(record.step)
        elif isinstance(record, Resume):
            self._roll_back(record, begin, file)
        elif isinstance(record, Started):
            self._begin(record, number)
        elif isinstance(record, Checkpoint):
            # A checkpoint that was overwritten holds only the state of the later step.
            earlier = [saved for saved in self.checkpoints if saved[1] != record.path]
            self.checkpoints = [*earlier, (record.step, record.path)]
        elif isinstance(record, Bound):
            self.origins.update(record.origins())
        elif isinstance(record, Command):
            self._add_command(record)
        elif isinstance(record, Finish):
            self.finished = True
            if record.steps or record.outcome:  # otherwise `klarm close` wrote it, without training
                self.outcome = record.outcome

    def _add_steps(self, steps: list[int]) -> None:
        """Count steps: all at once if each one is higher than the one before, as is usual."""
        if not steps:
            return
        self._add_step(steps[0])
        if all(map(lt, steps, steps[1:])):
            self.steps, self.last_step = self.steps + len(steps) - 1, steps[-1]
        else:
            for step in steps[1:]:
                self._add_step(step)

    def _add_step(self, step: int) -> None:
        if step != self.last_step:
            if self.last_step is None:
                self.first_step = step
            elif step < self.last_step:
                self._in_order = False
            self.steps += 1
            self.last_step = step
        self.finished, self.outcome = False, ""

    def _begin(self, record: Started, number: int) -> None:
        self.finished = False
        learn_all(record.sentences)
        self.detectors |= {
            name
            for name, section in record.config.items()
            if isinstance(section, dict) and section.get("enabled") is True
        }
        if self.head is None:
            self.head, self.began = record, record.started
            if number == 1:
                self.run = record.run

    def _add_command(self, command: Command) -> None:
        self.commands.add(command.key)
        known = self.incidents.get(command.incident)
        if known is not None:
            known.acknowledged_by = acknowledged_after(command, known.acknowledged_by)

    def _roll_back(self, resume: Resume, begin: int, file: IO[bytes]) -> None:
        limit = Limit(resume.step)
        self.checkpoints = [saved for saved in self.checkpoints if limit.keeps_checkpoint(saved[0])]
        if self.last_step is None or (self._in_order and limit.keeps_step(self.last_step)):
            return
        undone = 0
        survivor: int | None = None
        later: int | None = None
        for step in steps_back(file, begin):
            if limit.keeps_step(step.step):
                survivor = step.step if survivor is None else survivor
                if self._in_order:
                    break
            elif step.step != later:
                undone += 1
            later = step.step
        self.rollbacks.append(Rollback(resume.step, self.last_step))
        self.rolled_back += undone
        self.steps -= undone
        self.last_step = survivor
