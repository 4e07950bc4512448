"""TRL and all other Hugging Face trainers: a callback that watches, and acts on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import INTEGRATION_TO_CALLBACK

from klarm.boundary import never_raises
from klarm.incidents import can_be_loaded
from klarm.integrations.base import ConfigSource, checked_settings
from klarm.integrations.kept_checkpoint import KeptCheckpoints
from klarm.integrations.reaction import OnCritical, Reaction
from klarm.integrations.tracker_alerts import send_alerts
from klarm.integrations.trainer_run import TrainerRuns, checkpoint_path
from klarm.metrics import KLS, PROBE, meaning, to_number
from klarm.monitor import Monitor
from klarm.notices import Notices, ReportsFailures
from klarm.probe import Probe, contexts_of_dataset, undisturbed
from klarm.settings import ConfigError
from klarm.types import Incident

_Rows = list[tuple[int, dict[str, object]]]  # what was logged, by step


def _no_change() -> None:
    """Return None, as a hook that failed does: the trainer's control stays as it is."""


class KlarmCallback(ReportsFailures, TrainerCallback):
    """Watches a run from `callbacks=[KlarmCallback()]`; settings are those of `klarm.init`.

    - `on_critical`: when an incident is open and critical, save a checkpoint, or save and stop.
      This happens once per incident.
    - `every_step`: have the trainer log every step, whatever its `logging_steps`.
    - `probe`: measure KL on fixed contexts, for runs that log none: True, or a `klarm.probe.Probe`
      with settings of your own. Contexts it lacks are taken from the training set.
    - `tracker_alerts`: make incidents alerts in W&B or Trackio, if `report_to` names them.

    An invalid setting raises here, before training; no hook raises. Every rank must have the
    callback: all ranks see the same numbers and make the same decision. Only rank 0 records and
    reports.
    """

    def __init__(
        self,
        run: str | None = None,
        *,
        on_critical: OnCritical = "none",
        every_step: bool = True,
        probe: bool | Probe = False,
        tracker_alerts: bool = True,
        config: ConfigSource = None,
        **overrides: object,
    ) -> None:
        self.every_step = every_step
        self.tracker_alerts = tracker_alerts
        self.probe = Probe() if probe is True else probe or None
        if self.probe is not None and not isinstance(self.probe, Probe):
            raise ConfigError(f"probe is {probe!r}: it must be True, False or a klarm.probe.Probe")
        self._probed: tuple[int, dict[str, float]] | None = None  # a step, and what it measured
        self.monitor: Monitor | None = None  # while training is under way
        # Decides what to do. With several ranks, each has its own monitor without a journal, so
        # that all decide alike: if one rank stopped alone, the others would wait for it forever.
        self._judge: Monitor | None = None
        self._settings = checked_settings("", run, config, overrides, "KlarmCallback()")
        self._runs = TrainerRuns()
        self._reaction = Reaction(on_critical)
        self._asked_to_stop: int | None = None  # the step
        self._asked_to_save: tuple[int, list[Incident]] | None = None  # the step, and what for
        self._kept: KeptCheckpoints | None = None
        self._measured: set[str] = set()  # keys of KL that had a number before
        self.notices = Notices(stderr=self._settings.console)
        self._framework = self._settings.framework

    @never_raises(_no_change)
    def on_train_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:  # noqa: ARG002
        """Start watching. If training is resumed, restore the state of the monitor."""
        self.monitor = self._judge = self._asked_to_stop = self._asked_to_save = None
        self._measured.clear()
        # The name of the trainer, because `kl` has different meanings in TRL's trainers.
        self._framework = self._settings.framework or f"trl/{type(args).__name__}"
        # From the checkpoint, which is the same on all ranks; only rank 0 has the journal.
        rows = [(row["step"], self._read(row)) for row in state.log_history]
        if self._reaction.acts and (args.world_size or 1) > 1:
            settings = self._settings
            judge = Monitor(
                "",
                settings.detectors(),
                rules=settings.incident_rules(),
                framework=self._framework,
                user_keys=settings.metrics,
            )
            # Only rank 0 has the probe: with its values, ranks would decide differently.
            self._judge = _brought_to(judge, state.global_step, _without_probe(rows))
        self._start_recording(args, state, rows)
        self._start_probe(state, parts)
        if self.monitor is not None:
            self.monitor.training_began("transformers", "trl")
        if self._judge is None:
            self._judge = self.monitor
        if self._judge is not None:
            patience = self._settings.incident_rules().resolve_after
            self._reaction.pass_over(self._judge, self.monitor, patience)

    @never_raises(_no_change)
    def _start_recording(self, args: Any, state: Any, rows: _Rows) -> None:
        settings = replace(self._settings, framework=self._framework)
        monitor = self._runs.start(settings, args, state)
        self.monitor = _brought_to(monitor, state.global_step, rows)
        if state.is_world_process_zero:
            self._kept = KeptCheckpoints(Path(args.output_dir), monitor.say)
            self._kept.take_up({incident.id for incident in monitor.incidents if incident.is_open})
            if args.save_total_limit:  # otherwise the trainer deletes nothing
                monitor.on_event.append(self._kept.on_event)
            if self.tracker_alerts:
                send_alerts(monitor, args.report_to or ())
        if getattr(args, "beta", None) == 0 and self.probe is None:
            monitor.say(
                f"there is no KL to watch: beta is 0 in {type(args).__name__}, so the trainer has "
                "no reference model; KlarmCallback(probe=True) measures one, or set beta=0.001 or "
                "more to have kl logged"
            )

    @never_raises(_no_change)
    def _start_probe(self, state: Any, parts: Mapping[str, Any]) -> None:
        """Let the probe record the policy before the first step, or load what was recorded."""
        self._probed = None
        probe, monitor = self.probe, self.monitor
        if probe is None:
            return
        if monitor is None or not state.is_world_process_zero:
            probe.stop()
            return
        found, model = None, parts.get("model")
        if not probe.has_contexts and model is not None:
            dataset = getattr(parts.get("train_dataloader"), "dataset", None)
            with undisturbed(model):  # a dataset may transform its rows at random
                found = contexts_of_dataset(dataset, probe.pool_size)
        contexts, are_prompts = found or (None, False)
        probe.start(
            state.global_step,
            model=model,
            contexts=contexts,
            are_prompts=are_prompts,
            tokenizer=parts.get("processing_class"),
            monitor=monitor,
            notices=monitor.notices,
        )

    @never_raises(_no_change)
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Make the trainer log this step, if `every_step` is set.

        This happens even if the monitor failed: logging waits for all ranks.
        """
        if self.every_step:
            control.should_log = True
        self._measure(state.global_step, is_logged=control.should_log)

    @never_raises(_no_change)
    def _measure(self, step: int, *, is_logged: bool) -> None:
        if self.probe is None or self.monitor is None:
            return
        values = self.probe.read(step)
        if values is None:
            return
        if is_logged:  # it is logged with the rest of the step
            self._probed = step, values
        else:
            self.monitor.log(values, step)

    @never_raises(_no_change)
    def on_log(
        self,
        args: Any,
        state: Any,
        control: Any,
        logs: Mapping[str, object] | None = None,
        **_: Any,
    ) -> None:
        """Log what the trainer logged, and act if an incident becomes critical."""
        if not logs:
            return
        metrics = self._read(logs)
        probed, self._probed = self._probed, None
        if probed is not None and probed[0] == state.global_step:
            metrics.update(probed[1])
            if state.log_history and state.log_history[-1].get("step") == state.global_step:
                state.log_history[-1].update(probed[1])  # a resumed run finds it in its checkpoint
        if self.monitor is not None:
            self.monitor.log(metrics, state.global_step)
        if self._kept is not None:  # before the save that may follow
            self._kept.catch_up()
        if self._judge is not None and self._judge is not self.monitor:
            for name in PROBE:
                metrics.pop(name, None)
            self._judge.log(metrics, state.global_step)
        if self._asked_to_stop is not None and state.global_step > self._asked_to_stop:
            self._say(
                "training continues although klarm asked it to stop at step "
                f"{self._asked_to_stop}: this trainer ignores "
                "should_training_stop, or another callback has reset it"
            )
        self._say_what_was_saved(args, state, before=state.global_step)
        if self._judge is not None:
            self._act(self._judge, state.global_step, control)

    @never_raises(_no_change)
    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Note the checkpoint, and restore the last good one if the trainer has deleted it."""
        step = state.global_step
        if self._kept is not None:
            self._kept.restore()
        if self.monitor is not None:
            self.monitor.checkpoint(step, checkpoint_path(args, state, step))
        self._say_what_was_saved(args, state, before=step + 1)

    @never_raises(_no_change)
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002
        """Finish the run. If training raises, this is not called: the run ends with the process."""
        self._say_what_was_saved(args, state, before=state.global_step + 1)
        if self.monitor is not None:
            self.monitor.training_ended()
            self.monitor.finish()
        self.monitor = self._judge = self._kept = None

    def _read(self, logs: Mapping[str, object]) -> dict[str, object]:
        """Return the metrics to log. TRL logs a NaN as None, so a KL of None counts as NaN."""
        read = {key: value for key, value in logs.items() if key != "step"}
        for key, value in logs.items():
            known = meaning(key, self._framework)
            if known is None or known.metric not in KLS:
                continue
            if value is None and key in self._measured:
                read[key] = float("nan")
            elif to_number(value) is not None:
                self._measured.add(key)
        return read

    def _act(self, judge: Monitor, step: int, control: Any) -> None:
        new = self._reaction.due(judge)
        if not new:
            return
        control.should_save = True
        self._asked_to_save = step, new
        if self._reaction.stops:
            control.should_training_stop = True
            self._asked_to_stop = step

    def _say_what_was_saved(self, args: Any, state: Any, before: int) -> None:
        """Report a save that klarm asked for before a step, once it can be verified."""
        if self._asked_to_save is None or self._asked_to_save[0] >= before:
            return
        (step, incidents), self._asked_to_save = self._asked_to_save, None
        path = checkpoint_path(args, state, step)
        if self.monitor is not None:
            saved = path if can_be_loaded(str(path)) else None
            self._reaction.say(self.monitor, incidents, step, saved)

    def _say(self, message: str) -> None:
        if self.monitor is not None:
            self.monitor.say(message)


def _brought_to(monitor: Monitor, step: int, rows: _Rows) -> Monitor:
    """Log the history of the checkpoint that training resumes from, if any, to a monitor."""
    if step > 0:
        monitor.resume(step + 1, rows)
    return monitor


def _without_probe(rows: _Rows) -> _Rows:
    return [(step, {k: v for k, v in row.items() if k not in PROBE}) for step, row in rows]


# Makes `report_to="klarm"` valid.
INTEGRATION_TO_CALLBACK["klarm"] = KlarmCallback
