"""The public names have the types that people rely on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import klarm

SAMPLE = Path(__file__).with_name("public_api.py")


def test_a_strict_check_of_a_users_file_finds_what_it_should(tmp_path: Path) -> None:
    """No error where there is none; and each mistake at its end is found."""
    package = Path(klarm.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(SAMPLE)],
        env={**os.environ, "MYPYPATH": str(package)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "Success: no issues found in 1 source file\n")
