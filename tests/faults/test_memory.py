"""What a run leaves in memory is bounded, whatever it logs and however many runs there are."""

from __future__ import annotations

import gc
import multiprocessing.util
import subprocess
import sys
import textwrap
import weakref

import pytest

import klarm
from klarm.metrics import Binding


def test_finished_monitors_are_let_go_of_where_multiprocessing_is_imported() -> None:
    """Its finalizers hold what they call; a sweep makes hundreds of monitors."""
    registered = len(multiprocessing.util._finalizer_registry)  # type: ignore[attr-defined]
    known = []
    for number in range(5):
        monitor = klarm.init(f"r{number}", console=False)
        monitor.log({"kl": 0.1})
        monitor.finish()
        known.append(weakref.ref(monitor))
    del monitor
    klarm.init("last", console=False)
    gc.collect()
    assert [ref() for ref in known] == [None] * 5
    klarm.finish()
    left = len(multiprocessing.util._finalizer_registry)  # type: ignore[attr-defined]
    assert left <= registered + 1


def grown_by(code: str) -> tuple[int, str]:
    """Return how many bytes a process grows by while it logs, and what it says on stderr."""
    script = f"""
import resource, klarm
def used():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
monitor = klarm.init("a")
for step in range(3):
    monitor.log({{"kl": 0.1, "warm": 1.0}}, step)
before = used()
{textwrap.dedent(code)}
print(used() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return int(done.stdout), done.stderr


needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")


@needs_proc
@pytest.mark.slow
def test_keys_that_never_come_again_do_not_pile_up() -> None:
    """9,000 new ones a step; what detectors read is read all the same."""
    grown, said = grown_by("""
        for step in range(3, 40):
            row = {f"step-{step}/key-{i}": 0.1 for i in range(9_000)}
            monitor.log({**row, "kl": 0.1 + step % 7 / 100}, step)
        del row
        assert monitor.log({"late/critic_loss": float("nan"), "reward": 1.0}, 40)
        assert "reward" in monitor.binding.keys
    """)
    assert grown < 40e6
    assert said.count("more than 10,000 different names were logged") == 1


@needs_proc
def test_many_keys_at_every_step_are_kept_in_few_rows() -> None:
    """Rows are kept for a diagnosis: of wide ones, what a diagnosis reads."""
    grown, _ = grown_by("""
        for step in range(3, 200):
            monitor.log({**{f"key-{i}": i + step / 7 for i in range(3_000)}, "kl": 0.1}, step)
    """)
    assert grown < 25e6


@needs_proc
def test_names_as_long_as_a_book_are_not_kept() -> None:
    """A megabyte each, a new one at every step."""
    grown, said = grown_by("""
        for step in range(3, 100):
            monitor.log({f"{step}" + "x" * 10**6: 0.1, "kl": 0.1}, step)
    """)
    assert grown < 25e6
    assert said.count("a name of more than 500 characters was logged") == 1
    assert len(said) < 20_000


def test_a_name_of_the_users_own_may_be_new_at_any_time() -> None:
    """The bound is for names that klarm does not know."""
    binding = Binding()
    binding.read({f"key-{i}": 0.1 for i in range(20_000)})
    assert len(binding.names()) == 10_000
    assert binding.read({"objective/kl": 0.5, "key-3": 0.1, "new": 1.0}) == {
        "kl": 0.5,
        "key-3": 0.1,
    }


def test_a_forked_worker_still_ends_its_run() -> None:
    """It leaves without atexit, so its finalizers end the run."""
    code = """
        import multiprocessing
        def work():
            import klarm
            klarm.init("first", console=False)
            klarm.log({"kl": 0.1})
            klarm.init("second", console=False)
            klarm.log({"kl": 0.1})
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
        for run in ("first", "second"):
            assert '"type":"finish"' in open(f"klarm_runs/{run}/journal.jsonl").read()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
