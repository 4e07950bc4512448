"""Ray actors: one of them holds the monitor, and any process may log through it. Needs ray.

python examples/ray_actors.py [steps]
"""

import os
import random
import sys
from pathlib import Path

import ray

import klarm

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 200


@ray.remote(num_cpus=0)
class Watcher:
    """Owns the run: a run is recorded by one process only."""

    def __init__(self, run: str, directory: str) -> None:
        self._monitor = klarm.init(run, dir=directory)

    def log(self, metrics: dict[str, float], step: int) -> list[str]:
        """Take a part of a step from whoever has it; return what is critical now."""
        self._monitor.log(metrics, step)
        return [incident.signal for incident in self._monitor.critical]

    def finish(self) -> None:
        """End the run; an actor that is simply dropped has recorded everything else."""
        self._monitor.finish()


@ray.remote(num_cpus=0)
class Sampler:
    """Stands for the actors that generate and score completions."""

    def sample(self, step: int) -> dict[str, float]:
        """Return what is known about the samples of a step."""
        rng = random.Random(step)
        return {"reward": 0.5 + rng.gauss(0, 0.05), "completions/mean_length": rng.gauss(200, 10)}


@ray.remote(num_cpus=0)
class Trainer:
    """Stands for the actor that updates the policy."""

    def train(self, step: int) -> dict[str, float]:
        """Return what is known about the update of a step."""
        rng = random.Random(-step)
        return {"kl": 0.02 + rng.gauss(0, 0.002), "entropy": 0.6 + rng.gauss(0, 0.02)}


ray.init(num_cpus=1, include_dashboard=False)
# An actor has another working directory than the driver.
directory = Path(os.environ.get("KLARM_DIR", "klarm_runs")).absolute()
watcher = Watcher.remote("ray-actors", str(directory))
sampler, trainer = Sampler.remote(), Trainer.remote()
for step in range(STEPS):
    # References are enough: the numbers go from actor to actor. The step's dicts become one step.
    watcher.log.remote(sampler.sample.remote(step), step)
    critical = watcher.log.remote(trainer.train.remote(step), step)
    if step % 10 == 9 and ray.get(critical):  # looking at every step would wait for every step
        break
ray.get(watcher.finish.remote())
ray.shutdown()
