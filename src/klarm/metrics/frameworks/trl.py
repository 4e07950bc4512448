"""TRL: `kl` depends on the trainer."""

from __future__ import annotations

from klarm.metrics.frameworks.row import Framework, Row
from klarm.metrics.kl_kind import Kind

TRL = Framework(
    "trl",
    keys={"kl": Row("kl", Kind("reference", "k3"), generic=True)},
    trainers={
        "rloo": {"kl": Row("kl", Kind("reference", "k1"), generic=True)},
        # Of completions that belong to other prompts.
        "kto": {"kl": Row("kl", Kind("reference", per="sequence", floored=True), generic=True)},
        "asyncgrpo": {"kl": Row("kl_old", Kind("old", "k3"), generic=True)},
        "ppo": {
            "objective/kl": Row("kl", Kind("reference", per="sequence")),
            "policy/approxkl_avg": Row("kl_old", Kind("old", "k2")),
        },
    },
    plain_keys={
        "reward": ("objective/scores", "env/reward_mean"),
        "reward_std": ("env/reward_std",),
        "entropy": ("policy/entropy_avg",),
        "critic_loss": ("loss/value_avg",),
        "clip_fraction": ("clip_ratio/region_mean", "policy/clipfrac_avg"),
        "length": ("completions/mean_length", "completion_length"),
        "truncated_fraction": ("completions/clipped_ratio",),
        "zero_std_fraction": ("frac_reward_zero_std",),
        "reward_margin": ("rewards/margins",),
        "reward_accuracy": ("rewards/accuracies",),
        "rollout_logp_gap": ("sampling/sampling_logp_difference/mean",),
        "kl_coef": ("objective/kl_coef",),
    },
    when_missing={"kl": "GRPO logs it only with beta > 0; KlarmCallback(probe=True) measures one"},
)
