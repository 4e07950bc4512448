"""Which run a trainer's output folder belongs to."""

from __future__ import annotations

from pathlib import Path

from klarm import api
from klarm.config import Config, load
from klarm.integrations.run_name import run_of_folder


def settings() -> Config:
    return load(overrides={"console": False})


def begin(output: Path, name: str = "") -> str:
    """Start a run for an output folder, log a step, end it and return its name."""
    config = settings()
    run = run_of_folder(config.dir, name or output.name, output)
    monitor = api.start(config, run, output_dir=str(output.absolute()))
    monitor.log({"kl": 0.1}, 1)
    monitor.finish()
    return run


def test_folders_with_the_same_last_part_are_runs_of_their_own() -> None:
    """Each is found again, in whatever order they are resumed."""
    first, second, third = Path("a/out"), Path("b/out"), Path("c/b/out")
    names = [begin(folder) for folder in (first, second, third)]
    assert names == ["out", "b-out", "c-b-out"]
    assert [begin(folder) for folder in (third, second, first)] == ["c-b-out", "b-out", "out"]


def test_runs_that_a_trainer_gives_the_same_name_are_distinguished() -> None:
    """As where a script has one run name for all seeds."""
    assert begin(Path("seed-1"), "grpo") == "grpo"
    assert begin(Path("seed-2"), "grpo") == "grpo-seed-2"
    assert begin(Path("seed-1"), "grpo") == "grpo"


def test_a_run_keeps_its_name_when_the_one_it_gave_way_to_is_deleted() -> None:
    """Otherwise a resumed run would begin again under another name."""
    begin(Path("a/out"))
    assert begin(Path("b/out")) == "b-out"
    Path("klarm_runs/out").rename("elsewhere")
    assert begin(Path("b/out")) == "b-out"


def test_a_relative_folder_is_the_same_as_the_absolute_one() -> None:
    """Scripts are started in both ways."""
    begin(Path("a/out"))
    assert begin(Path("a/out").absolute()) == "out"
    assert begin(Path("b/../a/out")) == "out"


def test_a_folder_behind_a_link_is_the_same_by_either_name() -> None:
    """A scratch disk is mostly linked to."""
    Path("scratch/job-1/out").mkdir(parents=True)
    Path("out").symlink_to("scratch/job-1/out")
    assert begin(Path("out")) == "out"
    assert begin(Path("scratch/job-1/out")) == "out"
    Path("out").unlink()
    Path("scratch/job-2/out").mkdir(parents=True)
    Path("out").symlink_to("scratch/job-2/out")
    assert begin(Path("out")) == "out"  # the next job, on its own scratch disk


def test_two_that_start_at_the_same_moment_do_not_share_a_run() -> None:
    """Neither has written to its journal yet."""
    first = run_of_folder("klarm_runs", "out", Path("a/out"))
    second = run_of_folder("klarm_runs", "out", Path("b/out"))
    assert (first, second) == ("out", "b-out")


def test_a_run_of_klarm_0_1_goes_on() -> None:
    """Its journal does not say where the trainer saved."""
    monitor = api.init("out", console=False)
    monitor.log({"kl": 0.1}, 1)
    monitor.finish()
    assert begin(Path("a/out")) == "out"


def test_a_directory_that_cannot_be_written_gets_the_plain_name() -> None:
    """The run is watched all the same, which is said elsewhere."""
    Path("a-file").touch()
    assert run_of_folder("a-file", "out", Path("a/out")) == "out"
