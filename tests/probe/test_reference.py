"""What is kept of the start of a run."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from klarm.probe.contexts import Context
from klarm.probe.reference import Kept, Reference, ReferenceFolder


def kept(*tokens: int, start: int = 1, level: float = 0.0) -> Kept:
    positions = len(tokens) - start
    ids = np.arange(positions * 2, dtype=np.int32).reshape(positions, 2)
    logps = -1.0 - ids.astype(np.float32)
    return Kept(Context(tokens, start), ids, logps, logps[:, 0], (level, 0.5, 0.25))


def reference(step: int) -> Reference:
    return Reference(
        step, [kept(1, 2, 3), kept(4, 5, 6, 7, start=2, level=0.1)], 150, False, 3, "x"
    )


def test_a_reference_comes_back_as_it_was(tmp_path: Path) -> None:
    """To the last bit."""
    folder = ReferenceFolder(tmp_path)
    folder.save(reference(0))
    found, problems = folder.load(10)
    assert not problems
    assert found is not None
    assert (found.step, found.vocabulary, found.adapters, found.refreshed, found.identity) == (
        0, 150, False, 3, "x",
    )  # fmt: skip
    for one, other in zip(found.kept, reference(0).kept, strict=True):
        assert (one.context, one.offsets) == (other.context, other.offsets)
        for name in ("top_ids", "top_logps", "rest_logp"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
            assert getattr(one, name).dtype == getattr(other, name).dtype


def test_a_run_that_goes_back_finds_the_reference_of_that_time(tmp_path: Path) -> None:
    """Later ones were made by a policy that no longer is."""
    folder = ReferenceFolder(tmp_path)
    for step in (0, 200, 400):
        folder.save(reference(step))
    found, _ = folder.load(399)
    assert found is not None
    assert found.step == 200
    found, _ = folder.load(1000)
    assert found is not None
    assert found.step == 200
    assert folder.load(-1)[0] is None


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.999])
def test_a_damaged_file_is_named_and_an_older_one_used(tmp_path: Path, keep: float) -> None:
    """Wherever it was cut off."""
    folder = ReferenceFolder(tmp_path)
    folder.save(reference(0))
    path = folder.save(reference(200))
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    found, (problem,) = folder.load(300)
    assert found is not None
    assert found.step == 0
    assert problem.startswith("reference-200.npz cannot be read (")


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    """It could run anything."""
    buffer = io.BytesIO()
    np.savez(buffer, format=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        Reference.unpack(buffer.getvalue())


def test_a_file_whose_parts_do_not_fit_is_refused() -> None:
    """Though it is whole."""
    broken = reference(0)
    broken.kept[1].context = Context((4, 5, 6, 7, 8), 2)
    with pytest.raises(ValueError, match="do not match"):
        Reference.unpack(broken.pack())


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path) -> None:
    """A link in place of the temporary file is not followed either."""
    folder = ReferenceFolder(tmp_path)
    folder.path.mkdir()
    target = tmp_path / "precious"
    target.write_text("mine")
    import os

    (folder.path / f"reference-0.{os.getpid()}.tmp").symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        folder.save(reference(0))
    assert target.read_text() == "mine"
    assert folder.load(5) == (None, [])
