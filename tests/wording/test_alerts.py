"""What alerts say, also those of detectors that the reader of a journal does not have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import klarm
from klarm.detectors import CATALOGUE
from klarm.types import SEVERITIES
from klarm.wording import sentence_of
from made_alerts import made_alert
from own_parts import PassRateDetector


def test_a_limit_is_left_out_beside_another_severity() -> None:
    """A critical alert may belong to an incident that is a warning so far."""
    facts = {"kl": 0.9, "z_score": 5.0, "baseline_mean": 0.5, "spread": 0.1, "threshold": 4.5}
    alert = made_alert(facts, case="rolling")
    assert alert.message.endswith("± 0.1 (critical above 4.5σ).")
    assert alert.said(with_limit=False).endswith("± 0.1.")


def test_a_sentence_that_lacks_a_fact_is_replaced_by_a_plain_one() -> None:
    """A detector of somebody else must not break the message of an incident."""
    assert made_alert({"kl": 0.9}, case="rolling").message == "kl is 0.9."


def test_advice_at_a_severity_that_a_detector_lacks_is_its_own() -> None:
    """Better than none."""
    alert = made_alert({"kl": -0.3}, "warning", detector="kl_negative")
    assert alert.advice("critical") == alert.recommendation != ""


def test_every_detector_of_klarm_has_advice_for_what_it_says() -> None:
    """By severity; what is only said of a NaN has its own."""
    for kind in CATALOGUE:
        assert set(kind.recommendations) <= set(SEVERITIES)
        assert bool(kind.messages) == bool(kind.recommendations)


READ = """
import sys
from pathlib import Path
from klarm.journal import Fold
from klarm.journal.records import decoded
path = Path(sys.argv[1])
Fold(path).update()
alerts = [decoded(line) for line in path.read_bytes().splitlines() if b'"alert"' in line[:16]]
print(alerts[0].message, alerts[0].recommendation, sep="\\n")
"""


def test_the_sentences_of_others_are_known_to_whoever_reads_the_journal() -> None:
    """The page, or `klarm show`, in a process without the training script."""
    with klarm.init("a", console=False, detectors=[PassRateDetector()]) as monitor:
        alerts = [one for step in range(3) for one in monitor.log({"pass_rate": 0.05}, step)]
    journal = Path("klarm_runs/a/journal.jsonl")
    done = subprocess.run(
        [sys.executable, "-c", READ, str(journal)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [alerts[0].message, alerts[0].recommendation]
    lines = map(json.loads, journal.read_text().splitlines())
    recorded = next(line for line in lines if line["type"] == "alert")
    assert recorded["message"] == alerts[0].message == sentence_of(alerts[0])
