"""How good the probe is, and what it costs: real tiny GRPO runs on the CPU.

`make bench-probe` runs every part; OPTIONS names some of them. A run that was made is not made
again: each leaves a file in bench/results/probe. The table goes to bench/results/probe.json.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from transformers import PrinterCallback, Qwen2Config, Qwen2ForCausalLM, set_seed

from framework_runs.run import Run
from framework_runs.trl import _TRAINERS, _Observer, _reference
from klarm.integrations.trl import KlarmCallback
from klarm.probe import Probe
from probe_runs import AGAINST, HEALTHY, JUMPS, VARIANTS

RESULTS = Path(__file__).resolve().parent / "results"
RUNS = RESULTS / "probe"
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "probe-against.png"
CAUSE = "learning rate raised"
VOCABULARY = 32_000  # of the large model
TEXT = 96  # tokens of a context of the large model
SMOOTHED = 20  # steps
SHARE_STEPS = 150


def trained(run: Run) -> list[dict[str, Any]]:
    """Train with the probe at every step, and return the journal's records."""
    known = RUNS / f"{run.name}.jsonl"
    if not known.exists():
        torch.set_num_threads(1)
        _reference()  # has a seed of its own
        set_seed(run.seed)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            watching = KlarmCallback(
                "run", dir=str(folder), console=False, probe=Probe(max_share=None)
            )
            trainer = _TRAINERS["GRPO"](run, str(folder / "out"))
            if run.setting.startswith("lora"):
                _add_adapters(trainer)
            for callback in (_Observer(run), watching):
                trainer.add_callback(callback)
            trainer.remove_callback(PrinterCallback)
            trainer.train()
            RUNS.mkdir(parents=True, exist_ok=True)
            part = known.with_suffix(".part")
            part.write_bytes((folder / "run" / "journal.jsonl").read_bytes())
            part.rename(known)
    return [json.loads(line) for line in known.read_text().splitlines()]


def _add_adapters(trainer: Any) -> None:
    from peft import LoraConfig, get_peft_model

    weights = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer.model = get_peft_model(trainer.model, weights)
    trainer.model_wrapped = trainer.model


def opened(records: Iterable[dict[str, Any]], signal: str = "") -> list[dict[str, Any]]:
    """Return the events by which people are notified that something is wrong."""
    alarms = [r for r in records if r["type"] == "event" and r["event"] in ("opened", "escalated")]
    return [event for event in alarms if not signal or event["signal"] == signal]


def curve(records: Iterable[dict[str, Any]], metric: str) -> list[tuple[int, float]]:
    rows = [r for r in records if r["type"] == "step" and metric in r["metrics"]]
    return [(row["step"], float(row["metrics"][metric])) for row in rows]


def jumps() -> list[tuple[str, object]]:
    """How soon the incident on kl opens and is critical, and whether its cause is right."""
    delays, critical, right, any_told = [], [], 0, []
    for run in JUMPS:
        records, jump = trained(run), run.sane_rows
        alarms = [event for event in opened(records, "kl") if event["step"] > jump]
        worst = [event for event in alarms if event["severity"] == "critical"]
        delays.append(alarms[0]["step"] - jump if alarms else math.inf)
        critical.append(worst[0]["step"] - jump if worst else math.inf)
        right += bool(alarms) and alarms[0]["pattern"] == CAUSE
        early = [event for event in opened(records) if event["step"] > jump]
        any_told.append(early[0]["step"] - jump if early else math.inf)
        say(f"{run.name}: notified after {delays[-1]}, critical after {critical[-1]}")
    return [
        ("jumps: runs", len(JUMPS)),
        ("jumps: incident on kl within 10 steps", sum(delay <= 10 for delay in delays)),
        ("jumps: critical on kl within 20 steps", sum(delay <= 20 for delay in critical)),
        ("jumps: cause right", right),
        ("jumps: steps to the incident on kl, median and worst", (median(delays), max(delays))),
        ("jumps: steps to critical, median and worst", (median(critical), max(critical))),
        ("jumps: steps to an incident on any signal, median", median(any_told)),
    ]


def healthy() -> list[tuple[str, object]]:
    """How many healthy runs have an incident, and whether the probe has a part in it."""
    any_, on_kl = [], []
    for run in HEALTHY:
        alarms = opened(trained(run))
        if alarms:
            any_.append(run.name)
            say(f"{run.name}: {[(e['signal'], e['severity'], e['detectors']) for e in alarms]}")
        if any(name.startswith("kl_probe") for event in alarms for name in event["detectors"]):
            on_kl.append(run.name)
    return [
        ("healthy: runs", len(HEALTHY)),
        ("healthy: with an incident", any_),
        ("healthy: with an incident that the probe's detectors opened or joined", on_kl),
    ]


def against() -> list[tuple[str, object]]:
    """The probe's curve beside the trainer's KL, where that rises at least tenfold.

    Both are smoothed, and compared up to the peak of the trainer's and over the whole run. Near its
    peak the trainer's KL often stands still, where the order of values means little: the third
    number ends where it first reaches half of its peak.
    """
    found: list[tuple[str, object]] = []
    all_rises: list[float] = []
    all_wholes: list[float] = []
    for kind, runs in AGAINST.items():
        rises, wholes, halves, noises, factors = {}, {}, {}, {}, {}
        for run, kl, probe in risen(runs):
            rises[run.name], wholes[run.name] = agreement(kl, probe)
            noises[run.name] = round(noise(kl) / noise(probe), 1)
            level = smoothed(kl)
            factors[run.name] = round(level.max() / level[0])
            half = slice(int(np.argmax(level >= level.max() / 2)) + 1)
            halves[run.name] = round(spearman(level[half], smoothed(probe)[half]), 3)
            say(
                f"{run.name}: KL times {factors[run.name]}, Spearman {rises[run.name]} over the "
                f"rise, {wholes[run.name]} over the whole run, {halves[run.name]} up to half the "
                f"peak, noise ratio {noises[run.name]}"
            )
        found += [
            (f"against, {kind}: runs whose KL rises tenfold, of {len(runs)}", len(rises)),
            (f"against, {kind}: by how much it rises", factors),
            (f"against, {kind}: Spearman over the rise, both smoothed over 20 steps", rises),
            (f"against, {kind}: the same over the whole run", wholes),
            (f"against, {kind}: the same up to half the peak", halves),
            (f"against, {kind}: noise of the trainer's log KL over the probe's", noises),
        ]
        all_rises += rises.values()
        all_wholes += wholes.values()
    return [
        *found,
        ("against, all runs: Spearman over the rise, median", round(median(all_rises), 3)),
        ("against, all runs: Spearman over the whole run, median", round(median(all_wholes), 3)),
    ]


def picture() -> list[tuple[str, object]]:
    """Draw the two curves of the runs that `against` compares, for docs/probe.md."""
    from probe_plot import Panel, draw

    panels = [
        Panel(f"{kind}, {'LoRA' if 'lora' in run.setting else run.options['reward']}", run.seed, kl,
              probe, run.sane_rows if run.change == "jump" else None, *agreement(kl, probe))
        for kind, runs in AGAINST.items() for run, kl, probe in risen(runs)
    ]  # fmt: skip
    draw(panels, PICTURE)
    return [("picture: runs drawn", len(panels))]


def variants() -> list[tuple[str, object]]:
    """How other ways to measure agree with the trainer's KL, over the rise and the whole run."""
    from probe_variants import VARIANTS as WAYS
    from probe_variants import measured

    found: list[tuple[str, object]] = []
    for run in VARIANTS:
        rows = measured(run, RUNS / "variants" / f"{run.name}.json", _add_adapters)
        kl = np.array([row["kl"] for row in rows])
        agree = {way: agreement(kl, np.array([row[way] for row in rows])) for way in WAYS}
        found.append((f"variants: {run.name}: Spearman over the rise, the whole run", agree))
        say(f"{run.name}: {agree}")
    return found


def risen(runs: Iterable[Run]) -> Iterator[tuple[Run, Any, Any]]:
    """Yield the runs whose KL rises tenfold, with the trainer's KL and the probe's."""
    for run in runs:
        records = trained(run)
        theirs, ours = dict(curve(records, "kl")), dict(curve(records, "kl_probe"))
        steps = sorted(theirs.keys() & ours.keys())
        kl = np.array([theirs[step] for step in steps])
        level = smoothed(kl)
        if level.max() < 10 * max(level[0], 1e-12):
            say(f"{run.name}: its KL does not rise tenfold")
        else:
            yield run, kl, np.array([ours[step] for step in steps])


def agreement(kl: Any, probe: Any) -> tuple[float, float]:
    """Return the rank correlation of both, smoothed: over the rise, and over the whole run."""
    smooth, smooth_probe = smoothed(kl), smoothed(probe)
    rise = slice(int(np.argmax(smooth)) + 1)
    return (
        round(spearman(smooth[rise], smooth_probe[rise]), 3),
        round(spearman(smooth, smooth_probe), 3),
    )


def smoothed(values: Any) -> Any:
    return np.convolve(values, np.ones(SMOOTHED) / SMOOTHED, "valid")


def spearman(one: Any, other: Any) -> float:
    ranks = [np.argsort(np.argsort(values)).astype(float) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def noise(values: Any) -> float:
    """Return the step-to-step noise of the logarithm: by how much its slope differs, typically.

    The slope itself is the trend, so a curve that rises evenly has no noise.
    """
    positive = values[values > 0]
    return float(np.median(np.abs(np.diff(np.log(positive), 2))))


def cost() -> list[tuple[str, object]]:
    """One measurement beside the training of a step, on a model of over 100 M parameters."""
    model, optimizer = large_model()
    size = sum(weight.numel() for weight in model.parameters())
    # As long as prompts with their completions, and measured at every position: dearer than those.
    texts = random_texts(8, TEXT).tolist()
    probe = Probe(model, texts, max_share=None)
    probe.read(0)
    times = [_timed(lambda step=step: probe.read(step)) for step in (1, 2, 3)]
    batch = random_texts(4, 512)
    tokens = batch.numel()
    pieces = _timed(lambda: _train(model, batch))  # generating the completions comes on top
    pieces += _timed(optimizer.step)
    once = median(times)
    dear_below = once / pieces * tokens * 100
    assert probe._distance is not None
    kept = probe._distance.reference
    return [
        ("cost: parameters", size),
        ("cost: seconds of a measurement", round(once, 3)),
        ("cost: tokens trained on, and seconds, without generation", (tokens, round(pieces, 1))),
        ("cost: tokens per step at which a measurement is 1 %", round(dear_below)),
        ("cost: bytes kept per context token", round(len(kept.pack()) / kept.positions)),
    ]  # fmt: skip


def large_model() -> tuple[Any, torch.optim.Optimizer]:
    """Return a model of over 100 M parameters, randomly initialised, with its optimizer."""
    torch.manual_seed(0)
    shape = Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=768, intermediate_size=2_048, num_hidden_layers=12,
        num_attention_heads=12, num_key_value_heads=12, tie_word_embeddings=True,
    )  # fmt: skip
    model = Qwen2ForCausalLM(shape)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-6)


def random_texts(count: int, tokens: int) -> Any:
    return torch.randint(0, VOCABULARY, (count, tokens))


def _train(model: Any, batch: Any) -> None:
    model(input_ids=batch, labels=batch).loss.backward()


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def share() -> list[tuple[str, object]]:
    """What the probe takes of a run of the large model when it spaces itself, as by default.

    Steps are short for such a model, so the probe must leave many out.
    """
    torch.set_num_threads(1)
    model, optimizer = large_model()
    probe = Probe(model, random_texts(8, TEXT).tolist())
    begin = _timed(lambda: probe.read(0))
    spent, measured, total = 0.0, [], 0.0
    for step in range(1, SHARE_STEPS + 1):
        batch = random_texts(1, 512)
        total += _timed(lambda batch=batch: (_train(model, batch), optimizer.step()))  # type: ignore[misc]
        optimizer.zero_grad()
        began = time.perf_counter()
        if probe.read(step) is not None:
            measured.append(step)
        spent += time.perf_counter() - began
        say(f"share: step {step}, {spent / (total + spent):.4f} of {total + spent:.0f} s")
    return [
        ("share: steps of 512 tokens", SHARE_STEPS),
        ("share: seconds of a step", round(total / SHARE_STEPS, 2)),
        ("share: seconds before the first step, once", round(begin, 2)),
        ("share: of the time, measured from outside", round(spent / (total + spent), 4)),
        ("share: measured at steps", measured),
    ]


def say(line: str) -> None:
    print(line, flush=True)


PARTS: dict[str, Callable[[], list[tuple[str, object]]]] = {
    "jumps": jumps, "healthy": healthy, "against": against, "picture": picture, "cost": cost,
    "share": share, "variants": variants,
}  # fmt: skip


def main() -> None:
    path = RESULTS / "probe.json"
    RESULTS.mkdir(exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    for name in sys.argv[1:] or PARTS:
        found.update(PARTS[name]())
        path.write_text(json.dumps(found, indent=1))
    for what, value in found.items():
        say(f"{what}: {value}")


if __name__ == "__main__":
    main()
