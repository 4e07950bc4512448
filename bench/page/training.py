"""A process that trains many runs: writes journals, and notes when it wrote each line."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from klarm.journal import FileJournal, Started
from page.indexing import STEP_SECONDS
from page.journals import METRICS


def main() -> None:
    root, noted, runs, seconds = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    journals = [FileJournal(root / f"run-{number:02}", print) for number in range(runs)]
    for number, journal in enumerate(journals):
        journal.record(Started(f"run-{number:02}", time.time(), "", "", {}))
    written: dict[str, float] = {}
    step, begin = 0, time.monotonic()
    while time.monotonic() - begin < float(seconds):
        step += 1
        for number, journal in enumerate(journals):
            # KL is the step, so that what a page shows tells which step it is.
            journal.step(step, time.time(), {name: float(step) for name in METRICS})
            written[f"run-{number:02} {step}"] = time.time()
            time.sleep(STEP_SECONDS / runs)
    noted.write_text(json.dumps(written))
    for journal in journals:
        journal.close(5.0)


if __name__ == "__main__":
    main()
