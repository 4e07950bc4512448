"""Which key fills which metric, and the line that says so."""

from __future__ import annotations

import math
import re

from cases import over
from klarm.detectors import (
    CATALOGUE,
    Detector,
    EntropyCollapseDetector,
    KLExplosionDetector,
    RewardHackingDetector,
    TrustRegionDetector,
)
from klarm.metrics.binding import Binding
from klarm.metrics.kl_kind import Kind, Origin
from klarm.metrics.user_keys import UserKey
from klarm.monitor.binding_report import BindingReport
from klarm.monitor.coverage import idle_lines, watched_lines
from klarm.monitor.missing import hints, nothing_known

_IDLE = "1 detector is idle, because this metric is not logged: "
REWARD_HACKING_IDLE = f"{_IDLE}reward_std (reward_hacking)"
KL_EXPLOSION_IDLE = f"{_IDLE}kl (kl_explosion)"


def lines_of(detectors: list[Detector], binding: Binding) -> list[str]:
    """Return all that would be said of a binding."""
    every = (watched_lines, idle_lines, hints)
    return [line for lines in every for line in lines(detectors, binding)]


def test_known_keys_get_their_names_and_unknown_ones_keep_theirs() -> None:
    """Nothing that is a number is lost."""
    values = Binding().read({"train/kl": 0.1, "my/own": 2, "note": "text", "epoch": "0.5"})
    assert values == {"kl": 0.1, "my/own": 2.0, "epoch": 0.5}


def test_the_best_key_of_a_step_is_bound() -> None:
    """The others are recorded under their own names."""
    binding = Binding()
    values = binding.read({"actor/reward_kl_penalty": 3.0, "actor/kl_loss": 0.1})
    assert values == {"kl": 0.1, "actor/reward_kl_penalty": 3.0}
    assert binding.keys["kl"] == "actor/kl_loss"


def test_many_metrics_that_are_not_logged_are_one_short_line() -> None:
    """Their detectors are counted; `klarm detectors` has them."""
    every = [kind() for kind in CATALOGUE]
    (line,) = idle_lines(every, Binding())
    assert re.match(
        r"\d\d detectors are idle, because \d\d? metrics are not logged: kl, kl_old, ", line
    )
    assert len(line) < 230


def test_keys_in_another_case_are_known_but_rank_after_exact_ones() -> None:
    """Two spellings are two sources."""
    assert Binding().read({"KL": 0.5, "Train/Reward": 1.0}) == {"kl": 0.5, "reward": 1.0}
    assert Binding().read({"KL": 0.5, "kl": 0.1}) == {"KL": 0.5, "kl": 0.1}
    mapped = Binding(user_keys={"kl": UserKey("KL_div")})
    assert mapped.read({"kl_DIV": 0.5}) == {"kl": 0.5}


def test_a_metric_stays_bound_to_its_key() -> None:
    """Two estimates of one thing must not take turns, even when the better one comes later."""
    binding = Binding()
    binding.read({"actor/reward_kl_penalty": 3.0})
    assert binding.read({"kl": 0.1}) == {"other/kl": 0.1}
    assert binding.read({"actor/reward_kl_penalty": 4.0, "kl": 0.2}) == {"kl": 4.0, "other/kl": 0.2}


def test_a_prefix_does_not_make_another_key() -> None:
    """A tracker's `train/kl` is the trainer's `kl`."""
    binding = Binding()
    assert binding.read({"train/kl": 0.1}) == {"kl": 0.1}
    assert binding.read({"kl": 0.2}) == {"kl": 0.2}


def test_a_key_without_a_number_binds_nothing() -> None:
    """A column of None does not take the place of one with values."""
    binding = Binding()
    assert binding.read({"kl": None, "objective/kl": 0.5}) == {"kl": 0.5}


def test_nested_dicts_are_joined_by_slashes() -> None:
    """And whatever else is nested is left out, cycles too."""
    cycle: dict[str, object] = {"kl": 0.3}
    cycle["again"] = cycle
    values = Binding().read({"train": {"kl": 0.1, "list": [1]}, "deep": {"a": {"b": 1}}, "x": 1})
    assert values == {"kl": 0.1, "deep/a/b": 1.0, "x": 1.0}
    assert Binding().read(cycle)["kl"] == 0.3


def test_a_list_of_rewards_is_reduced_to_numbers() -> None:
    """Mean and spread where the trainer logs none, and the p of the dip test; nested ones too."""
    binding = Binding()
    rewards = [i / 16 for i in range(16)]
    values = binding.read({"train": {"rewards": rewards}, "kl": 0.1})
    assert values.keys() == {"kl", "reward", "reward_std", "reward_dip_p"}
    assert values["reward"] == sum(rewards) / 16
    assert binding.keys["reward"] == "train/rewards/mean"
    assert binding.read({"rewards": [1, 0, 0, 1]}).keys() == {"reward", "reward_std"}
    assert binding.read({"env/reward_dist": [1, 3]}) == {
        "env/reward_dist/mean": 2.0,
        "env/reward_dist/std": 2**0.5,
    }


def test_the_reward_statistics_of_the_trainer_take_precedence() -> None:
    """The numbers of the samples keep names of their own then, in later steps too."""
    binding = Binding()
    values = binding.read({"rewards": [1, 3], "reward": 5.0})
    assert values == {"reward": 5.0, "rewards/mean": 2.0, "reward_std": 2**0.5}
    assert binding.read({"rewards": [2, 2]}) == {"rewards/mean": 2.0, "reward_std": 0.0}


def test_samples_that_were_logged_first_remain_the_source() -> None:
    """The trainer's own number, when it comes late, steps aside: they must not take turns."""
    binding = Binding()
    assert binding.read({"rewards": [1, 3]})["reward"] == 2.0
    assert binding.read({"reward": 5.0, "reward_std": 1.0}) == {
        "other/reward": 5.0,
        "other/reward_std": 1.0,
    }


def test_rewards_that_are_not_a_list_of_numbers_do_not_affect_other_metrics() -> None:
    """One number is kept under its own name, a word is left out and named as the reason."""
    binding = Binding()
    assert binding.read({"rewards": 3, "kl": 0.1}) == {"rewards": 3.0, "kl": 0.1}
    for garbage in ("n/a", [["a"]], object(), None, []):
        assert binding.read({"rewards": garbage, "kl": 0.1}) == {"kl": 0.1}
    binding.read({"rewards": [[0.5], [0.7]]})
    assert lines_of([RewardHackingDetector()], binding) == [
        REWARD_HACKING_IDLE,
        "what is logged as rewards is not a flat list of numbers but a list",
    ]


def test_a_detector_may_read_either_of_two_metrics() -> None:
    """It is idle only without both, and the lines name what it has."""

    def lines(metrics: dict[str, object]) -> list[str]:
        binding = Binding()
        binding.read(metrics)
        return lines_of([RewardHackingDetector()], binding)

    assert lines({"reward_dip_p": 0.5}) == ["reward_dip_p: reward_hacking"]
    assert lines({"reward_std": 0.5}) == ["reward_std: reward_hacking"]
    assert lines({"rewards": list(range(10)), "reward_std": 1.0}) == [
        "reward_std: reward_hacking",
        "reward_dip_p ← rewards/dip_p: reward_hacking",
    ]
    assert lines({"kl": 0.5}) == [REWARD_HACKING_IDLE]


def test_keys_that_are_not_text_are_left_out() -> None:
    """And text that is no Unicode is mended, so that the journal can hold it."""
    values = Binding().read({1: 0.5, None: 1.0, "bad\ud800": 2.0})  # type: ignore[dict-item]
    assert values == {r"bad\ud800": 2.0}


def test_the_lines_name_the_key_or_the_reason() -> None:
    """What is watched, what is idle and why, what is off."""

    def line(metrics: dict[str, object], framework: str = "", **settings: bool) -> str:
        binding = Binding(framework)
        binding.read(metrics)
        return "\n".join(lines_of([KLExplosionDetector(**settings)], binding))

    assert line({"kl": 0.1}) == "kl: kl_explosion"
    assert line({"train/kl": 0.1}) == "kl ← train/kl: kl_explosion"
    assert line({"kl": 0.1}, enabled=False) == "off (enabled: false): kl_explosion"
    assert "(most trainers log it only with a KL penalty)" in line({"loss": 0.1})
    assert "if one of your metrics is a KL" not in line({"loss": 0.1})
    assert line({"kl": None, "twinkling": 1}).endswith(
        "no kl is logged (most trainers log it only with a KL penalty); "
        "if one of your metrics is a KL, set metrics.kl: NAME"
    )
    assert "KlarmCallback(probe=True) measures one" in line({"loss": 0.1}, "trl/GRPOConfig")
    for framework in ("sb3", "rllib"):
        assert line({"loss": 0.1}, framework) == KL_EXPLOSION_IDLE
    # Whose loop it is nobody has said: it may be Lightning's, or one's own.
    assert not re.search("TRL|GRPO|beta|verl", line({"loss": 0.1}))
    assert "(train/approx_kl is another quantity: KL of the new policy to the one before" in line(
        {"train/approx_kl": 0.1}
    )
    assert "if mean_KL is that (KL of the policy to the reference model), log it as kl" in line(
        {"loss": 0.1, "mean_KL": 0.2}
    )
    assert "what is logged as kl is not one number but a list" in line({"kl": [0.1, 0.2]})


def test_watched_metrics_are_reported_immediately_and_missing_ones_with_the_next_step() -> None:
    """Several dicts may make up the first step; later only what is new is said."""
    said: list[str] = []
    binding = Binding()
    detectors = [KLExplosionDetector(), EntropyCollapseDetector(), TrustRegionDetector()]
    report = BindingReport(detectors, binding, said.append)
    report.finish()
    assert said == []  # nothing was logged, so nothing is missing
    report.step(0, binding.read({"entropy": 0.5}))
    assert said == ["watching\n  entropy: entropy_collapse"]
    report.step(0, binding.read({"approx_kl": 0.1}))
    assert said[1:] == ["watching\n  kl_old ← approx_kl: trust_region"]
    for step in range(1, 20):
        assert report.step(step, binding.read({"entropy": 0.5}))
    assert said[2:] == [
        KL_EXPLOSION_IDLE,
        "no kl is logged (approx_kl is another quantity: "
        "KL of the new policy to the one before the update)",
    ]
    report.step(20, binding.read({"train/kl": 0.1}))
    report.finish()
    assert said[4:] == ["watching\n  kl ← train/kl: kl_explosion"]


def test_a_run_of_one_step_reports_what_is_missing_at_its_end() -> None:
    """There is no second step to wait for."""
    said: list[str] = []
    binding = Binding()
    report = BindingReport([KLExplosionDetector(), TrustRegionDetector()], binding, said.append)
    report.step(7, binding.read({"kl": 0.5}))
    report.finish()
    assert said == [
        "watching\n  kl: kl_explosion",
        "1 detector is idle, because this metric is not logged: kl_old (trust_region)",
    ]


def test_many_unknown_keys_are_named_in_part() -> None:
    """The warning stays a line."""
    binding = Binding()
    assert nothing_known(binding) == "none of the logged values is a number"
    ten = ", ".join(f"my/{letter}" for letter in "abcdefghij")
    binding.read({f"my/{letter}": 1 for letter in "abcdefghij"})
    assert nothing_known(binding).endswith(f"that are logged: {ten}")
    binding.read({"my/k": 1})
    assert nothing_known(binding).endswith(f"that are logged: {ten}, ...")


def test_a_kl_that_is_0_for_twenty_rows_is_reported_as_not_measured() -> None:
    """Once, with what to set; rows without it do not count."""
    said: list[str] = []
    binding = Binding("unsloth")
    detectors = [KLExplosionDetector()]
    report = BindingReport(detectors, binding, said.append)
    for step in range(19):
        assert report.step(step, binding.read({"kl": 0.0}))
        assert report.step(step, binding.read({"loss": 0.5}))
    assert said == ["watching\n  kl ← kl (reference, k3, per token, ±10): kl_explosion"]
    assert not report.step(19, binding.read({"kl": 0.0}))
    reason = (
        "kl has been exactly 0 for its first 20 rows, as if KL were not measured: set beta above 0"
    )
    assert said[1:] == [reason]
    assert hints(detectors, binding) == [reason]


def test_a_kl_that_moves_after_six_zeros_is_measured() -> None:
    """Real runs begin so: the policy is its own reference."""
    said: list[str] = []
    binding = Binding()
    report = BindingReport([KLExplosionDetector()], binding, said.append)
    values = [0.0] * 6 + [1e-6] + [0.0] * 30
    waits = [report.step(step, binding.read({"kl": kl})) for step, kl in enumerate(values)]
    assert waits == [True] * 6 + [False] * 31
    assert said == ["watching\n  kl: kl_explosion"]


def test_a_kl_old_of_0_is_not_reported_as_not_measured() -> None:
    """With one update per batch, kl_old is 0 by nature; RLlib's is 0 when it is switched off."""

    def said_of(key: str) -> list[str]:
        said: list[str] = []
        binding = Binding()
        report = BindingReport([TrustRegionDetector()], binding, said.append)
        for step in range(20):
            report.step(step, binding.read({key: 0.0}))
        return said[1:]

    assert said_of("actor/ppo_kl") == []
    assert said_of("learners/default_policy/mean_kl_loss") == [
        "learners/default_policy/mean_kl_loss has been exactly 0 for its first 20 rows, as if KL "
        "were not measured: set use_kl_loss=True"
    ]


def said_of_entropy(framework: str, *values: float) -> list[str]:
    """Return what is said of an entropy besides that it is watched."""
    said: list[str] = []
    binding = Binding(framework)
    report = BindingReport([EntropyCollapseDetector()], binding, said.append)
    for step, value in enumerate(values):
        report.step(step, binding.read({"entropy": value}))
    return [text for text in said if not text.startswith("watching")]


def test_an_entropy_of_a_language_model_with_its_sign_flipped_is_remarked_on() -> None:
    """Once, after five rows. A term of the loss is often logged so."""
    assert said_of_entropy("trl/GRPO", *[-0.7] * 30) == [
        "entropy has been below 0 for its first 5 rows, which the entropy of a language model "
        "cannot be: is its sign flipped, as in a loss term? Then log minus it"
    ]
    assert said_of_entropy("trl", *[-0.7] * 4) == []


@over(
    "framework, values",
    [
        ("", [-0.7] * 30),  # who logs is not known
        ("sb3/PPO", [-0.7] * 30),  # continuous actions
        ("rllib/SAC", [-0.7] * 30),
        ("my-trainer", [-0.7] * 30),
        ("trl", [0.7] * 30),
        ("trl", [0.7, *[-0.7] * 30]),
        ("trl", [-1e-9, 0.0, *[-1e-9] * 30]),  # rounding
        ("trl", [math.nan] * 30),
    ],
)
def test_an_entropy_that_may_be_negative_is_not_remarked_on(
    framework: str, values: list[float]
) -> None:
    """The differential entropy of a continuous policy is below 0 when the policy is narrow."""
    assert said_of_entropy(framework, *values) == []


def test_the_line_names_the_kind() -> None:
    """Where the framework or the key tells it."""

    def line(metrics: dict[str, object], framework: str = "") -> str:
        binding = Binding(framework)
        binding.read(metrics)
        return watched_lines([KLExplosionDetector()], binding)[0]

    assert line({"kl": 0.1}, "trl") == "kl ← kl (reference, k3, per token): kl_explosion"
    assert "kl ← kl (reference, signed k1, per token)" in line({"kl": 0.1}, "trl/RLOOTrainer")
    assert "kl ← train/kl (reference, per token, ±10)" in line({"train/kl": 0.1}, "openrlhf")
    assert "(reference, summed over the sequence)" in line({"objective/kl": 9.0})


def test_a_key_with_the_negated_metric_is_converted() -> None:
    """NaN, and later steps, too."""
    binding = Binding("sb3")
    assert binding.read({"train/entropy_loss": -0.7, "loss": 1.0}) == {"entropy": 0.7, "loss": 1.0}
    assert binding.read({"train/entropy_loss": -0.6}) == {"entropy": 0.6}
    assert str(binding.read({"train/entropy_loss": 0.0})["entropy"]) == "0.0"
    assert binding.read({"loss": 2.0}) == {"loss": 2.0}
    assert Binding("slime").read({"train/entropy_loss": 0.7}) == {"entropy": 0.7}
    assert Binding("prime-rl").read({"ref_kl/mean": -0.2}) == {"kl": 0.2}
    assert Binding().read({"ppo_actor/update/approx_kl/avg": -0.01}) == {"kl_old": 0.01}


def test_an_ambiguous_key_is_bound_only_when_the_framework_is_known() -> None:
    """And the line asks for it."""
    binding = Binding()
    assert binding.read({"train/entropy_loss": -0.7}) == {"train/entropy_loss": -0.7}
    (hint,) = hints([EntropyCollapseDetector()], binding)
    assert hint.startswith("no entropy is logged (train/entropy_loss is entropy in openrlhf, slime")
    assert hint.endswith(": set framework=...)")


def test_a_key_that_is_bound_is_not_offered_for_another_metric() -> None:
    """TRL's `kl` is another quantity in one of its trainers only."""
    binding = Binding()
    binding.read({"kl": 0.1})
    assert hints([TrustRegionDetector()], binding) == []


def test_kl_to_the_old_policy_is_never_confused_with_kl_to_the_reference() -> None:
    """TRL's AsyncGRPO logs it as kl; what then cannot be bound steps aside."""
    binding = Binding("trl/AsyncGRPOTrainer")
    assert binding.read({"kl": 0.1, "kl_old": 0.2}) == {"kl_old": 0.2, "other/kl": 0.1}
    assert Binding("trl/AsyncGRPOConfig").read({"train/kl": 0.1}) == {"kl_old": 0.1}


def test_one_module_of_rllib_is_bound_for_all_metrics() -> None:
    """The default one, or the first by name; the others keep their keys."""
    modules = {"b": {"mean_kl_loss": 0.2, "entropy": 2.0}, "a": {"mean_kl_loss": 0.1}}
    binding = Binding()
    assert binding.read({"learners": modules}) == {
        "kl_old": 0.1,
        "entropy": 2.0,
        "learners/b/mean_kl_loss": 0.2,
    }
    default = {"default_policy": {"mean_kl_loss": 0.3}, **modules}
    assert Binding().read({"learners": default})["kl_old"] == 0.3


def test_the_users_key_takes_precedence_over_all_tables() -> None:
    """Its prefix makes no difference; the metric's own name steps aside."""
    said = {"kl": UserKey("my/kl", Kind("reference", "k1")), "reward": UserKey("my/reward")}
    binding = Binding("trl", said)
    assert binding.read({"kl": 9.0, "objective/kl": 8.0}) == {"other/kl": 9.0, "objective/kl": 8.0}
    assert binding.read({"train/my/kl": 0.1, "my/reward": 1.0}) == {"kl": 0.1, "reward": 1.0}
    assert watched_lines([KLExplosionDetector()], binding) == [
        "kl ← train/my/kl (reference, signed k1, per token): kl_explosion"
    ]


def test_a_kind_without_a_key_applies_to_whatever_is_bound() -> None:
    """For keys whose estimator is the user's choice."""
    binding = Binding("verl", {"kl": UserKey(kind=Kind("reference", "k1"))})
    binding.read({"actor/reward_kl_penalty": 0.1})
    assert str(binding.kind("kl")) == "reference, signed k1, per token"


def test_a_users_key_that_is_never_logged_is_reported() -> None:
    """With the nearest key that did, and for metrics that no detector waits for."""
    said = {"kl": UserKey("my/kl"), "kl_coef": UserKey("beta")}
    binding = Binding(user_keys=said)
    binding.read({"my/kll": 0.1})
    assert hints([KLExplosionDetector()], binding) == [
        "metrics.kl names my/kl, which is not logged; did you mean my/kll?",
        "metrics.kl_coef names beta, which is not logged",
    ]


def test_the_names_in_a_journal_are_used_as_they_are() -> None:
    """Its values were turned when they were recorded, and what was not bound then is not now."""
    rows = {"entropy": 0.7, "kl": 0.1, "approx_kl": 0.2, "train/entropy_loss": -0.5}
    for framework in ("sb3", "trl/asyncgrpo", ""):
        assert Binding(framework, of_journal=True).read(rows) == rows


def test_the_users_key_is_found_in_a_journal_under_its_metrics_name() -> None:
    """And another key, said only now, under its own."""
    row = {"kl": 0.1, "my/other": 0.2}
    live = Binding(user_keys={"kl": UserKey("my/kl")}, of_journal=True)
    live.recorded["kl"] = Origin("my/kl")
    assert live.read(row) == row
    changed = Binding(user_keys={"kl": UserKey("my/other")}, of_journal=True)
    changed.recorded["kl"] = Origin("my/kl")
    assert changed.read(row) == {"kl": 0.2, "other/kl": 0.1}
    moved = Binding(user_keys={"kl_old": UserKey("kl")}, of_journal=True)
    assert moved.read(row) == {"kl_old": 0.1, "my/other": 0.2}


def test_a_metric_that_stops_being_a_number_is_remarked_on_once() -> None:
    """It is bound by then, so it is not in the list of what is missing. Empty cells are usual."""
    binding = Binding()
    binding.read({"kl": 0.1, "reward": 1.0})
    for raw in (None, "", " "):
        assert binding.read({"kl": raw, "reward": 1.0}) == {"reward": 1.0}
    assert binding.remarks == []
    for raw in ("abc", "def", [1, 2], object()):
        assert binding.read({"kl": raw, "reward": 1.0}) == {"reward": 1.0}
    assert binding.remarks == ["kl is not one number but a str; it is left out"]
