"""`make faults`: the faults of the tests, many more of them. Prints a table; exits with 1 if any
event was lost or anything was wrong in silence.
"""

from __future__ import annotations

import argparse
import sys
import time

from flips import flip_bytes
from kills import kill_runs
from snapshot_flips import sweep as flip_snapshots
from sweep import kept, sweep_writes

Row = tuple[str, str, str, bool]  # what was done, to what, what came of it, whether that is well


def random_kills(count: int, seed: int) -> Row:
    found = kill_runs(count, seed)
    lost = len(found.lost) + len(found.stuck)
    doubled = (
        f"{found.doubled} messages seen twice ({found.doubled_by_answers} whose answer was lost; "
        f"{found.known_by_id} have the same id)"
    )
    what = f"{count} random SIGKILLs, service in every mood"
    return what, f"{found.runs} runs, {found.events} events", f"{lost} lost; {doubled}", not lost


def kill_at_every_write(every: int) -> Row:
    found = sweep_writes(every)
    lost = {how: len(found.lost(how)) for how in ("deliver", "restart")}
    expected = kept(found.reports[0])
    other = sum(kept(report) != expected for report in found.of("restart"))
    crashes = len(found.of("restart"))
    came = (
        f"{lost['deliver']} lost by deliver, {lost['restart']} by a restart; {other} other outcomes"
    )
    is_well = not other and not any(lost.values())
    what = "killed at every write: resume, rollback, snapshots, delivery"
    return what, f"{crashes} crashes", came, is_well


def flipped_bytes(count: int, seed: int) -> Row:
    found = flip_bytes(count, seed)
    differing = found.differing.total()
    came = f"{differing} changed what people see; {len(found.silent)} in silence"
    what = "flipped bytes in journal and deliveries"
    return what, f"{count} flips", came, not found.silent


def flipped_snapshots(count: int) -> Row:
    wrong, unsaid = flip_snapshots(count)
    came = f"{wrong} changed what is said; {unsaid} in silence"
    return "flipped bytes in snapshots", f"{count} flips", came, not wrong and not unsaid


def main() -> None:
    parser = argparse.ArgumentParser(description="Break things around klarm, many times.")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--flips", type=int, default=5000)
    parser.add_argument("--snapshot-flips", type=int, default=500)
    parser.add_argument("--every", type=int, default=1, help="crash at every so many writes")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"seed {given.seed}")
    print("| fault | of what | outcome | seconds |\n|---|---|---|---|", flush=True)
    all_well = True
    for fault in (
        lambda: kill_at_every_write(given.every),
        lambda: flipped_bytes(given.flips, given.seed),
        lambda: flipped_snapshots(given.snapshot_flips),
        lambda: random_kills(given.kills, given.seed),
    ):
        began = time.monotonic()
        what, of_what, came, is_well = fault()
        mark = "" if is_well else "**FAILED** "
        print(f"| {what} | {of_what} | {mark}{came} | {time.monotonic() - began:.0f} |", flush=True)
        all_well &= is_well
    sys.exit(not all_well)


if __name__ == "__main__":
    main()
