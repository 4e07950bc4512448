"""The losses and the explained variance of SB3 and RLlib, by the keys that each algorithm logs."""

from __future__ import annotations

from cases import over
from klarm.metrics import Binding

# What an update logged in Stable-Baselines3 2.9 and RLlib 2.60, without counters and settings.
SB3_PPO = {
    "train/learning_rate": 0.0003,
    "train/entropy_loss": -0.6878,
    "train/policy_gradient_loss": -0.0107,
    "train/value_loss": 55.39,
    "train/approx_kl": 0.0013,
    "train/clip_fraction": 0.0,
    "train/loss": 27.49,
    "train/explained_variance": -0.0449,
}
SB3_A2C = {
    "train/learning_rate": 0.0007,
    "train/explained_variance": -0.1097,
    "train/entropy_loss": -0.6895,
    "train/policy_loss": 1.5959,
    "train/value_loss": 8.1214,
}
SB3_DQN = {"train/learning_rate": 0.0001, "train/loss": 0.3944}
SB3_SAC = {
    "train/learning_rate": 0.0003,
    "train/ent_coef": 0.9282,
    "train/actor_loss": 11.53,
    "train/critic_loss": 1.128,
    "train/ent_coef_loss": -0.1206,
}
SB3_TD3 = {"train/learning_rate": 0.001, "train/critic_loss": 0.146, "train/actor_loss": 8.406}
RLLIB_PPO = {
    "learners/default_policy/vf_loss": 8.7786,
    "learners/default_policy/vf_loss_unclipped": 195.9,
    "learners/default_policy/total_loss": 8.8815,
    "learners/default_policy/vf_explained_var": 0.0044,
    "learners/default_policy/policy_loss": 0.1028,
}
RLLIB_SAC = {
    "learners/default_policy/qf_twin_loss": 0.1702,
    "learners/default_policy/total_loss": 12.69,
    "learners/default_policy/alpha_loss": -0.0944,
    "learners/default_policy/qf_loss": 0.1979,
    "learners/default_policy/policy_loss": 12.42,
}
RLLIB_APPO = {
    "learners/default_policy/vf_loss": 21.69,
    "learners/default_policy/total_loss": 7.1639,
    "learners/default_policy/policy_loss": -3.6776,
}
OF_INTEREST = ("loss", "actor_loss", "critic_loss", "explained_variance")


@over(
    "framework, row, bound",
    [
        ("sb3", SB3_PPO, (27.49, -0.0107, 55.39, -0.0449)),
        ("sb3", SB3_A2C, (None, 1.5959, 8.1214, -0.1097)),
        ("sb3", SB3_DQN, (0.3944, None, None, None)),
        ("sb3", SB3_SAC, (None, 11.53, 1.128, None)),
        ("sb3", SB3_TD3, (None, 8.406, 0.146, None)),
        ("rllib", RLLIB_PPO, (8.8815, 0.1028, 8.7786, 0.0044)),
        ("rllib", RLLIB_SAC, (12.69, 12.42, 0.1979, None)),
        ("rllib", RLLIB_APPO, (7.1639, -3.6776, 21.69, None)),
    ],
)
def test_each_part_of_the_loss_is_read_as_what_it_is(
    framework: str, row: dict[str, float], bound: tuple[float | None, ...]
) -> None:
    """A2C logs no loss as a whole: that of its policy does not stand for it."""
    values = Binding(framework).read(row)
    assert tuple(values.get(name) for name in OF_INTEREST) == bound


def test_a_policy_loss_is_the_loss_where_the_framework_is_another() -> None:
    """An OpenRLHF actor has an optimizer of its own, and minimises just that."""
    assert Binding("openrlhf").read({"policy_loss": 0.2})["loss"] == 0.2
    assert Binding().read({"train/policy_loss": 0.2})["loss"] == 0.2
