"""Which key fills which metric, and the line that says so."""

from __future__ import annotations

from klarm.binding import Binding, BindingReport, binding_line
from klarm.detectors import KLExplosionDetector, RewardHackingDetector


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


def test_a_metric_stays_bound_to_its_key() -> None:
    """Two estimates of one thing must not take turns, even when the better one comes later."""
    binding = Binding()
    binding.read({"actor/reward_kl_penalty": 3.0})
    assert binding.read({"kl": 0.1}) == {"other/kl": 0.1}
    assert binding.read({"actor/reward_kl_penalty": 4.0, "kl": 0.2}) == {"kl": 4.0, "other/kl": 0.2}


def test_a_prefix_makes_no_other_key() -> None:
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


def test_what_the_trainer_says_of_its_rewards_goes_first() -> None:
    """The numbers of the samples keep names of their own then, in later steps too."""
    binding = Binding()
    values = binding.read({"rewards": [1, 3], "reward": 5.0})
    assert values == {"reward": 5.0, "rewards/mean": 2.0, "reward_std": 2**0.5}
    assert binding.read({"rewards": [2, 2]}) == {"rewards/mean": 2.0, "reward_std": 0.0}


def test_samples_that_came_first_stay_the_source() -> None:
    """The trainer's own number, when it comes late, steps aside: they must not take turns."""
    binding = Binding()
    assert binding.read({"rewards": [1, 3]})["reward"] == 2.0
    assert binding.read({"reward": 5.0, "reward_std": 1.0}) == {
        "other/reward": 5.0,
        "other/reward_std": 1.0,
    }


def test_rewards_that_are_no_list_of_numbers_cost_nothing_else() -> None:
    """One number is kept under its own name, a word is left out and named as the reason."""
    binding = Binding()
    assert binding.read({"rewards": 3, "kl": 0.1}) == {"rewards": 3.0, "kl": 0.1}
    for garbage in ("n/a", [["a"]], object(), None, []):
        assert binding.read({"rewards": garbage, "kl": 0.1}) == {"kl": 0.1}
    binding.read({"rewards": [[0.5], [0.7]]})
    assert binding_line([RewardHackingDetector()], binding) == (
        "reward_hacking idle: what is logged as rewards is not a flat list of numbers but a list"
    )


def test_a_detector_may_read_either_of_two_metrics() -> None:
    """It is idle only without both, and the line names what it has."""

    def line(metrics: dict[str, object]) -> str:
        binding = Binding()
        binding.read(metrics)
        return binding_line([RewardHackingDetector()], binding)

    assert line({"reward_dip_p": 0.5}) == "watching reward_dip_p (reward_hacking)"
    assert line({"reward_std": 0.5}) == "watching reward_std (reward_hacking)"
    assert line({"rewards": list(range(10)), "reward_std": 1.0}) == (
        "watching reward_std (reward_hacking), reward_dip_p ← rewards/dip_p (reward_hacking)"
    )
    assert line({"kl": 0.5}) == "reward_hacking idle: no reward_std in what is logged"


def test_keys_that_are_no_text_are_left_out() -> None:
    """And text that is no Unicode is mended, so that the journal can hold it."""
    values = Binding().read({1: 0.5, None: 1.0, "bad\ud800": 2.0})  # type: ignore[dict-item]
    assert values == {"bad?": 2.0}


def test_the_line_names_the_key_or_the_reason() -> None:
    """What is watched, what is idle and why, what is off."""

    def line(metrics: dict[str, object], **settings: bool) -> str:
        binding = Binding()
        binding.read(metrics)
        return binding_line([KLExplosionDetector(**settings)], binding)

    assert line({"kl": 0.1}) == "watching kl (kl_explosion)"
    assert line({"train/kl": 0.1}) == "watching kl ← train/kl (kl_explosion)"
    assert line({"kl": 0.1}, enabled=False) == "kl_explosion off (enabled: false)"
    assert "TRL's GRPO logs it only with beta > 0" in line({"loss": 0.1})
    assert "TRL's GRPO logs it only with beta > 0" in line({"kl": None, "twinkling": 1})
    assert "(train/approx_kl is another quantity: KL of the new policy to the one before" in line(
        {"train/approx_kl": 0.1}
    )
    assert "if mean_KL is KL of the policy to the reference model, log it as kl" in line(
        {"loss": 0.1, "mean_KL": 0.2}
    )
    assert "what is logged as kl is not one number but a list" in line({"kl": [0.1, 0.2]})


def test_the_report_comes_once_and_again_when_a_metric_arrives() -> None:
    """At the tenth step at the latest it says what is missing."""
    said: list[str] = []
    binding = Binding()
    report = BindingReport([KLExplosionDetector()], binding, said.append)
    report.finish()
    assert said == []  # nothing was logged, so nothing is missing
    for _ in range(9):
        assert report.step()
        assert said == []
    assert report.step()
    assert "kl_explosion idle" in said[0]
    assert report.step()
    binding.read({"objective/kl": 0.1})
    assert not report.step()
    assert said[1:] == ["watching kl ← objective/kl (kl_explosion)"]
