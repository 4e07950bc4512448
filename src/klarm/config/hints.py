"""Hints for an unknown key at the top level: what the user probably meant."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from klarm.config.channels import SECTION as CHANNELS
from klarm.config.config import TOP_LEVEL
from klarm.metrics import METRICS
from klarm.metrics import SECTION as METRICS_SECTION
from klarm.settings import did_you_mean

# What other tools call our settings: W&B, MLflow, Trackio, TensorBoard, Hugging Face trainers.
_CALLED_ELSEWHERE = {
    "run": (
        "name",
        "id",
        "run_name",
        "run_id",
        "job_name",
        "project",
        "project_name",
        "experiment",
        "experiment_name",
    ),
    "dir": ("path", "folder", "run_dir", "log_dir", "logdir", "logging_dir", "output_dir"),
    "console": ("verbose", "quiet", "silent"),
    "disabled": ("enabled", "enable", "disable", "mode"),
    "channels": ("notify", "notifications", "alerts"),
}
_MAX_NAMED = 3  # sections with a setting of that name


def hint(name: object, sections: Mapping[str, Collection[str]]) -> str:
    """Return what to use instead of an unknown key, or the list of known keys.

    >>> hint("name", {}), hint("floor", {"reward_floor": ["enabled", "floor"]})
    ('; did you mean run?', '; did you mean reward_floor: {floor: ...}?')
    """
    places = [*TOP_LEVEL, METRICS_SECTION, CHANNELS, *sections]
    for ours, theirs in _CALLED_ELSEWHERE.items():
        if name in theirs:
            return f"; did you mean {ours}?"
    if name in METRICS:
        return f"; did you mean {METRICS_SECTION}: {{{name}: ...}}?"
    having = [section for section, settings in sections.items() if name in settings]
    if having:
        named = [f"{section}: {{{name}: ...}}" for section in having[:_MAX_NAMED]]
        more = ", or that of another section" if len(having) > _MAX_NAMED else ""
        return f"; did you mean {' or '.join(named)}{more}?"
    plain = [*TOP_LEVEL, METRICS_SECTION, CHANNELS, "incidents"]
    return did_you_mean(name, places) or (
        f"; known: {', '.join(plain)} and the names of detectors (`klarm detectors` lists them)"
    )
