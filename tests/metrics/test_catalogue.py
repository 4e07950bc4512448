"""The catalogue of metrics, and what keys mean by it."""

from __future__ import annotations

import inspect

import pytest

from cases import over
from klarm.detectors import MetricLostDetector
from klarm.metrics import catalogue
from klarm.metrics.catalogue import METRICS, SAMPLES
from klarm.metrics.frameworks import keys_of
from klarm.metrics.key_meaning import meaning
from klarm.metrics.samples import STATISTICS


def metric(key: str) -> str:
    known = meaning(key)
    return known.metric if known else ""


@over(
    "key, name",
    [
        ("kl", "kl"),
        ("train/kl", "kl"),
        ("objective/kl", "kl"),
        ("actor/kl_loss", "kl"),
        ("train/approx_kl", "kl_old"),
        ("actor/ppo_kl", "kl_old"),
        ("train/vllm_kl", "kl_rollout"),
        ("train/kl_penalty", "kl"),
        ("completions/mean_length", "length"),
        ("frac_reward_zero_std", "zero_std_fraction"),
        ("mismatch_kl/all/mean", "kl_rollout"),
        ("entropy/all/mean", "entropy"),
        ("optim/kl_sample_train_v1", "kl_rollout"),
        ("ppo_actor/update/approx_kl/avg", "kl_old"),
        ("ppo_actor/update/clip_ratio/avg", "clip_fraction"),
        ("learners/default_policy/mean_kl_loss", "kl_old"),
        ("learners/my_module/entropy", "entropy"),
        ("learners/my_module/curr_kl_coeff", "kl_coef"),
        ("env_runners/episode_return_mean", "reward"),
    ],
)
def test_framework_keys_are_known_by_what_they_mean(key: str, name: str) -> None:
    """KL to the reference, to the old policy and to the sampler are three things."""
    assert metric(key) == name


@over(
    "key",
    [
        "kl_penalty",  # a KL in NeMo-RL, with `train/`; elsewhere a coefficient
        "kl_loss",
        "entropy_loss",  # minus the entropy in SB3
        "train/entropy_loss",
        "ref_kl",  # minus the KL in prime-rl
        "ppo_actor/kl_rewards/avg",  # minus a weight times the KL
        "policy/rollout_train_logprobs_abs_diff_mean",  # a difference, but no KL
        "eval/my_module/entropy",
    ],
)
def test_a_key_that_is_not_clear_is_not_known(key: str) -> None:
    """A guess would be worse."""
    assert meaning(key) is None


@over(
    "framework, key, name, kind",
    [
        ("trl", "kl", "kl", "reference, k3, per token"),
        ("trl/GRPOTrainer", "train/kl", "kl", "reference, k3, per token"),
        ("trl/RLOOTrainer", "kl", "kl", "reference, signed k1, per token"),
        ("trl/KTOConfig", "kl", "kl", "reference, summed over the sequence, 0 if below"),
        ("trl/AsyncGRPOTrainer", "kl", "kl_old", "old policy, k3, per token"),
        ("trl/PPOConfig", "objective/kl", "kl", "reference, summed over the sequence"),
        ("Unsloth", "kl", "kl", "reference, k3, per token, ±10"),
        ("ms_swift", "kl", "kl", "reference, k3, per token, ±10"),
        ("ms-swift/kl_in_reward", "kl", "kl", "reference, signed k1, summed over the sequence"),
        ("nemo_rl", "kl_penalty", "kl", "reference, per token, ±10"),
        ("sb3", "train/approx_kl", "kl_old", "old policy, k3, per action"),
        ("stable_baselines3", "approx_kl", "kl_old", "old policy, k3, per action"),
        ("", "actor/ppo_kl", "kl_old", "old policy, signed k1, per token"),
        ("", "policy/approxkl_avg", "kl_old", "old policy, k2, per token"),
        ("", "optim/kl_sample_train_v2", "kl_rollout", "rollout policy, k2, per token"),
        ("", "learners/a/mean_kl_loss", "kl_old", "old policy, exact, per action"),
        ("", "kl", "kl", "None"),
        ("", "train/approx_kl", "kl_old", "None"),
        ("my own trainer", "kl", "kl", "None"),
    ],
)
def test_a_kl_has_the_kind_of_its_framework(framework: str, key: str, name: str, kind: str) -> None:
    """Without a framework, that of a key which only one has."""
    known = meaning(key, framework)
    assert known is not None
    assert (known.metric, str(known.kind)) == (name, kind)


def test_no_key_belongs_to_two_metrics() -> None:
    """Or it would depend on their order what a run is judged by."""
    keys = [key for metric in METRICS.values() for key in (metric.name, *metric.keys)]
    assert len(keys) == len(set(keys))


def test_what_klarm_computes_from_samples_ranks_last() -> None:
    """The trainer's own values take precedence over statistics of the rewards that it logs."""
    computed = {f"{key}/{name}" for key in SAMPLES for name in STATISTICS}
    for metric in METRICS.values():
        ranks = [key in computed for key in metric.keys]
        assert ranks == sorted(ranks), f"{metric.name}: {computed & {*metric.keys}} must be last"


def test_a_key_of_one_framework_is_spelled_only_in_its_file() -> None:
    """A new framework is one file of keys."""
    spelled = inspect.getsource(catalogue)
    for metric in METRICS.values():
        keys = keys_of(metric.name)
        assert metric.keys[: len(keys)] == keys
        assert [key for key in keys if f'"{key}"' in spelled] == []


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("rewards/margins", "reward_margin"),
        ("train/rewards/accuracies", "reward_accuracy"),
        ("sampling/sampling_logp_difference/mean", "rollout_logp_gap"),
    ],
)
def test_what_trainers_on_preferences_log_is_known(key: str, name: str) -> None:
    """The page shows it beside the loss."""
    found = meaning(key, "trl/DPOConfig")
    assert found is not None
    assert found.metric == name


@pytest.mark.parametrize("name", [name for name in METRICS if METRICS[name].only_shown])
def test_nobody_misses_what_is_only_shown(name: str) -> None:
    """KTO logs a margin only if a batch has answers of both kinds."""
    detector = MetricLostDetector()
    rows = [{"kl": 0.1 + step * 1e-4, **({name: 1.0} if step < 50 else {})} for step in range(400)]
    assert [detector.update(step, row) for step, row in enumerate(rows)] == [None] * 400
