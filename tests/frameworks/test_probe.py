"""The probe on real torch models: model.py, divergence.py, instrument.py, distance.py, probe.py."""

from __future__ import annotations

import copy
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_trl
import torch
from torch import nn

import klarm
from klarm import ConfigError, boundary
from klarm.integrations.trl import KlarmCallback
from klarm.probe import Probe
from klarm.probe.divergence import from_kept, from_logits, top_of
from klarm.probe.model import refusal, undisturbed, unwrapped

ROOT = Path(__file__).parents[2]
WORDS, WIDTH = 40, 16
PROMPTS = [[1, 2, 3], [4, 5], [6, 7, 8, 9], [10, 11], [12, 13], [14, 15], [16], [17, 18]]


class Tiny(nn.Module):
    """A causal model in plain torch, with dropout: it returns nothing but logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.mix = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(WIDTH, WORDS)
        self.most = 10**9  # rows that fit into memory

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        if len(ids) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return self.head(self.drop(self.mix(self.embed(ids))[0]))


def tiny(seed: int = 0) -> Tiny:
    torch.manual_seed(seed)
    return Tiny()


def train(model: nn.Module, steps: range, probe: Probe | None = None, rate: float = 0.1) -> list:
    """Train on noise, drawn from every generator there is, and return what was measured."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    found = []
    for step in steps:
        length = random.randint(3, 6) + int(np.random.randint(2))
        ids = torch.randint(0, WORDS, (4, length))
        loss = nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if probe is not None:
            found.append(probe.read(step))
    return found


def seeded() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


def probe_of(model: nn.Module, **settings: Any) -> Probe:
    defaults = {"completion_tokens": 6, "max_share": None, "refresh_every": 0}
    return Probe(model, PROMPTS, **{**defaults, **settings})


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_all_log_probabilities_kept_are_the_full_divergence() -> None:
    """And fewer are a little less, never more."""
    torch.manual_seed(0)
    start, now = torch.randn(300, 50), torch.randn(300, 50)
    full = from_logits(now, start)
    p, q = start.softmax(-1), now.softmax(-1)
    assert full.kl == pytest.approx(float((p * (p / q).log()).sum(-1).mean()), rel=1e-5)
    assert full.entropy == pytest.approx(float(-(q * q.log()).sum(-1).mean()), rel=1e-5)
    changed = float((start.argmax(-1) != now.argmax(-1)).float().mean())
    assert full.top_changed == pytest.approx(changed)
    assert from_kept(now, *top_of(start, 50)).kl == pytest.approx(full.kl, rel=1e-5)
    part = from_kept(now, *top_of(start, 8))
    assert 0.5 * full.kl < part.kl < full.kl
    assert part[1:] == pytest.approx(full[1:])


def test_a_policy_that_has_not_moved_is_at_zero_and_a_broken_one_is_nan() -> None:
    """Whichever way it is compared."""
    logits = torch.randn(10, 50)
    assert from_logits(logits, logits).kl == 0.0
    assert from_kept(logits, *top_of(logits, 8)).kl == 0.0
    broken = logits.clone()
    broken[3, 4] = torch.nan
    assert np.isnan(from_logits(broken, logits).kl)
    assert np.isnan(from_kept(broken, *top_of(logits, 8)).kl)
    assert np.isnan(from_logits(broken, logits).entropy)


def test_training_is_the_same_to_the_last_bit() -> None:
    """With dropout, and random numbers from Python, numpy and torch; contexts are refreshed too."""
    with_probe, without = tiny(), tiny()
    seeded()
    train(without, range(30))
    seeded()
    found = train(with_probe, range(30), probe_of(with_probe, refresh_every=5))
    assert all(found)
    assert same_weights(with_probe, without)
    assert with_probe.training


def test_modes_gradients_and_autocast_stay_as_they_were() -> None:
    """Module by module: a frozen part may be in eval mode while the rest trains."""
    model = tiny()
    model.drop.eval()
    ids = torch.randint(0, WORDS, (2, 5))
    model(ids).sum().backward()
    before = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    with torch.autocast("cpu", dtype=torch.bfloat16), undisturbed(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        assert not torch.is_autocast_enabled("cpu")
    assert [module.training for module in (model, model.drop)] == [True, False]
    assert torch.is_grad_enabled()
    probe_of(model).read(0)
    for name, weight in model.named_parameters():
        assert torch.equal(weight.grad, before[name])


def test_kl_rises_from_zero_and_comes_back_with_the_weights() -> None:
    """It is about the policy, not about the step."""
    model = tiny()
    start = copy.deepcopy(model.state_dict())
    probe = probe_of(model)
    assert probe.read(0)["kl_probe"] == 0.0
    seeded()
    found = [values["kl_probe"] for values in train(model, range(1, 40), probe)]
    assert found[-1] > 10 * found[0] > 0
    model.load_state_dict(start)
    values = probe.read(40)
    assert (values["kl_probe"], values["top_token_changed"]) == (0.0, 0.0)


def test_the_user_own_texts_are_measured_at_every_position() -> None:
    """Without sampling anything."""
    model = tiny()
    probe = Probe(model, PROMPTS, max_share=None, top_k=WORDS)
    probe.read(0)
    with torch.no_grad():
        before = {n: model.eval()(torch.tensor([n])).log_softmax(-1) for n in map(tuple, PROMPTS)}
    model.train()
    train(model, range(5))
    model.eval()
    means = []
    for tokens, p in before.items():
        if len(tokens) > 1:
            with torch.no_grad():
                q = model(torch.tensor([tokens])).log_softmax(-1)
            means.append(float((p.exp() * (p - q)).sum(-1)[0, :-1].mean()))
    assert probe.read(5)["kl_probe"] == pytest.approx(np.mean(means), rel=1e-3)


def test_it_logs_to_the_run_and_keeps_the_start_beside_the_journal() -> None:
    """What others see of it."""
    monitor = klarm.init("a", console=False)
    probe = probe_of(tiny())
    assert probe.measure(0).keys() == {"kl_probe", "entropy_probe", "top_token_changed"}
    assert [path.name for path in (monitor.folder / "probe").iterdir()] == ["reference-0.npz"]
    line = (monitor.folder / "journal.jsonl").read_text().splitlines()[-1]
    assert json.loads(line)["metrics"]["kl_probe"] == 0.0


def test_a_resumed_run_goes_on_with_the_same_curve() -> None:
    """From a checkpoint in the middle, past a refresh that is undone."""
    klarm.init("a", console=False)
    settings = {"refresh_every": 10}
    model = tiny()
    probe = probe_of(model, **settings)
    probe.read(0)
    seeded()
    whole = train(model, range(1, 16), probe)
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    saved = copy.deepcopy(model.state_dict())
    whole += train(model, range(16, 31), probe)
    klarm.finish()
    klarm.init("a", console=False)
    model.load_state_dict(saved)
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    assert train(model, range(16, 31), probe_of(model, **settings)) == whole[15:]


def test_the_level_is_carried_over_when_contexts_are_refreshed() -> None:
    """The curve has no step there, and new texts are measured from then on."""
    monitor = klarm.init("a", console=False)
    model = tiny()
    probe = probe_of(model, refresh_every=10)
    probe.read(0)
    seeded()
    before = train(model, range(1, 11), probe)[-1]
    assert probe._distance.reference.step == 10
    after = probe.read(11)  # nothing was trained in between
    assert after == pytest.approx(before, rel=1e-3)  # a tiny KL in 32 bits
    assert len(list((monitor.folder / "probe").iterdir())) == 2
    later = train(model, range(12, 14), probe)[-1]
    assert later["kl_probe"] != after["kl_probe"]


def test_a_start_that_is_lost_is_said() -> None:
    """Else the level would be taken for that of the whole run."""
    klarm.init("a", console=False)
    model = tiny()
    probe = probe_of(model)
    said: list[str] = []
    probe.notices.warn = said.append
    probe.read(250)
    (line,) = said
    assert line.startswith("the probe found no start of this run beside its journal")
    assert line.endswith("from step 250 on")


def test_memory_that_runs_out_is_tried_again_with_fewer() -> None:
    """And the values are the same."""
    model, roomy = tiny(), tiny()
    model.most = 1
    probe, other = probe_of(model), probe_of(roomy)
    said: list[str] = []
    probe.notices.warn = said.append
    probe.read(0)
    other.read(0)
    assert said == [
        "the probe ran out of memory; it continues with 2 of its contexts at a time",
        "the probe ran out of memory; it continues with 1 of its contexts at a time",
    ]
    values = probe.read(1)
    assert values["kl_probe"] == pytest.approx(0.0, abs=1e-6)


def test_memory_that_runs_out_for_good_ends_the_probe_not_the_training() -> None:
    """After three times, in words."""
    model = tiny()
    probe = probe_of(model)
    probe.read(0)
    said: list[str] = []
    probe.notices.warn = said.append
    model.most = 0
    assert [probe.read(step) for step in range(1, 6)] == [None] * 5
    assert said[-2:] == [
        "the probe ran out of memory with a single context",
        "the probe failed three times in a row and is off; kl_probe is not logged",
    ]
    assert model.training


def test_a_model_that_fails_costs_training_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it raises."""
    monkeypatch.setattr(boundary, "raise_failures", False)

    class Broken(Tiny):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            raise KeyError("pixel_values")

    model = Broken()
    probe = probe_of(model)
    said: list[str] = []
    probe.notices.warn = said.append
    state = torch.get_rng_state()
    assert [probe.measure(step) for step in range(6)] == [None] * 6
    assert "pixel_values" in said[0]
    assert said[-1].startswith("the probe failed three times")
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training


@pytest.mark.parametrize(
    "settings",
    [{"every": 0}, {"max_share": 0.0}, {"max_share": 2.0}, {"size": 0}, {"refresh_every": -1}],
)
def test_a_wrong_setting_is_refused_at_once(settings: dict[str, Any]) -> None:
    """Before training, naming it."""
    with pytest.raises(ConfigError, match=next(iter(settings))):
        Probe(tiny(), PROMPTS, **settings)
    with pytest.raises(ConfigError, match="probe is 3"):
        KlarmCallback(probe=3)


SHARDED = """
import sys
import torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch import nn
from klarm.probe.model import refusal
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)
mesh = torch.distributed.init_device_mesh("cpu", (1,))
model = nn.Sequential(nn.Embedding(8, 4), nn.Linear(4, 8))
fully_shard(model, mesh=mesh)
print(refusal(model))
dist.destroy_process_group()
"""


def test_a_sharded_model_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """FSDP in earnest, ZeRO-3 by the mark that it leaves on parameters."""
    done = subprocess.run(
        [sys.executable, "-c", SHARDED, str(tmp_path / "rendezvous")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "distributed tensors (FSDP2, TP)" in done.stdout
    model = tiny()
    model.head.weight.ds_id = 3
    assert "DeepSpeed ZeRO-3 shards its parameters" in refusal(model)
    probe = probe_of(model)
    said: list[str] = []
    probe.notices.warn = said.append
    assert [probe.read(step) for step in range(3)] == [None] * 3
    assert len(said) == 1


RANKS = """
import json, os, sys
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import klarm
from klarm.probe import Probe
from test_probe import probe_of, seeded, tiny, train
rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
model = tiny()
if size > 1:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
    model = DistributedDataParallel(model)
klarm.init("a", dir=folder, rank=rank, console=False)
probe = probe_of(model, refresh_every=8)
probe.read(0)
seeded()
found = train(model, range(1, 21), probe)
open(f"{folder}/rank{rank}of{size}.json", "w").write(json.dumps(found))
"""


def test_two_ranks_have_the_same_curve_as_one(tmp_path: Path) -> None:
    """Both train on the same data here. Rank 0 alone measures, and nobody waits for it."""
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT / "recordings"), *sys.path])
    for size in (1, 2):
        running = [
            subprocess.Popen(
                [sys.executable, "-c", RANKS, str(rank), str(size), str(tmp_path)],
                env={**os.environ, "PYTHONPATH": path},
            )
            for rank in range(size)
        ]
        assert [process.wait(timeout=120) for process in running] == [0] * size
    alone, first, second = (
        json.loads((tmp_path / f"rank{name}.json").read_text()) for name in ("0of1", "0of2", "1of2")
    )
    assert second == [None] * 20
    for one, other in zip(alone, first, strict=True):
        assert one == pytest.approx(other, rel=1e-6)


def grpo(reference: Path, folder: Path, steps: int, probe: Probe | None, *others: Any, **settings):
    watching = KlarmCallback("run", dir=str(folder / "k"), console=False, probe=probe or False)
    return tiny_trl.make_trainer(
        reference, folder, steps, [watching, *others], **{"beta": 0.0, **settings}
    )


def probed(folder: Path) -> dict[int, float]:
    lines = map(json.loads, (folder / "k" / "run" / "journal.jsonl").read_text().splitlines())
    rows = [line for line in lines if line["type"] == "step" and "kl_probe" in line["metrics"]]
    return {row["step"]: row["metrics"]["kl_probe"] for row in rows}


def test_in_trl_every_step_has_a_kl_and_weights_are_the_same(
    reference: Path, tmp_path: Path
) -> None:
    """Without beta, without anything to set."""
    plain = grpo(reference, tmp_path / "plain", 10, None)
    plain.train()
    trainer = grpo(reference, tmp_path / "probed", 10, Probe(max_share=None))
    trainer.train()
    assert list(probed(tmp_path / "probed")) == list(range(1, 11))
    assert same_weights(plain.model, trainer.model)
    assert tiny_trl.losses(plain) == tiny_trl.losses(trainer)


def test_a_learning_rate_that_jumps_is_reported_without_a_kl_of_the_trainer(
    reference: Path, tmp_path: Path
) -> None:
    """Within ten steps, with its cause."""
    jump = 40
    grpo(
        reference, tmp_path, jump + 15, Probe(max_share=None), tiny_trl.Learning(jump_at=jump)
    ).train()
    lines = map(json.loads, (tmp_path / "k" / "run" / "journal.jsonl").read_text().splitlines())
    incidents = [e for e in lines if e["type"] == "event" and e["signal"] == "kl"]
    assert jump < incidents[0]["step"] <= jump + 10
    assert incidents[0]["pattern"] == "learning rate raised"
    assert "critical" in [event["severity"] for event in incidents]


def test_with_adapters_the_start_is_the_model_without_them(reference: Path, tmp_path: Path) -> None:
    """No log-probability is kept, and what is frozen stays frozen."""
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2ForCausalLM

    torch.manual_seed(0)
    base = Qwen2ForCausalLM.from_pretrained(reference)
    model = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear"))
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    frozen = dict(model.named_parameters())[trained[0]]
    frozen.requires_grad_(False)
    klarm.init("a", console=False)
    probe = Probe(model, PROMPTS, completion_tokens=5, max_share=None)
    assert probe.read(0)["kl_probe"] == 0.0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.05)
    kept = probe._distance.reference.kept
    assert {one.top_ids.shape[1] for one in kept} == {0}
    means = []
    model.eval()
    with torch.no_grad():
        for context in (one.context for one in kept):
            q = model(torch.tensor([context.tokens])).logits.log_softmax(-1)
            with model.disable_adapter():
                p = model(torch.tensor([context.tokens])).logits.log_softmax(-1)
            kls = (p.exp() * (p - q)).sum(-1)[0, context.start - 1 : -1]
            means.append(float(kls.mean()))
    frozen.requires_grad_(False)
    model.train()
    assert probe.read(1)["kl_probe"] == pytest.approx(np.mean(means), rel=1e-4)
    assert not frozen.requires_grad
    now = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert now == trained[1:]


def test_a_run_killed_and_resumed_has_the_curve_of_one_that_was_not(
    reference: Path, tmp_path: Path
) -> None:
    """By `kill -9`, with a checkpoint before it; the journal has the steps between twice."""
    path = os.pathsep.join([str(Path(__file__).parent), str(ROOT / "recordings"), *sys.path])

    def run(folder: Path, **options: Any) -> int:
        folder.mkdir(exist_ok=True)
        arguments = {
            "folder": str(folder), "reference": str(reference), "steps": 16, "beta": 0.0,
            "save_strategy": "steps", "save_steps": 6,
            "klarm": {"run": "run", "dir": str(folder / "k"), "console": False},
            "probe": {"max_share": None, "refresh_every": 4}, **options,
        }  # fmt: skip
        command = [
            sys.executable,
            str(Path(__file__).parent / "tiny_trl.py"),
            json.dumps(arguments),
        ]
        return subprocess.run(
            command, env={**os.environ, "PYTHONPATH": path}, check=False
        ).returncode

    assert run(tmp_path / "whole") == 0
    assert run(tmp_path / "killed", kill_at=11) == -signal.SIGKILL
    assert run(tmp_path / "killed", resume=True) == 0
    whole, resumed = probed(tmp_path / "whole"), probed(tmp_path / "killed")
    assert list(resumed) == list(range(1, 17))
    assert resumed == pytest.approx(whole, rel=1e-6)


def test_wrappers_are_taken_off() -> None:
    """They would make other ranks wait, or compile for every length."""
    model = tiny()
    assert unwrapped(nn.DataParallel(torch.compile(model))) is model
