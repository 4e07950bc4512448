"""What W&B recorded in the working directory, in its offline mode."""

from __future__ import annotations

from pathlib import Path

import wandb

_HEADER_BYTES = 7


def read_finished() -> bytes:
    """End the run of W&B and return all that it wrote.

    `finish` may return while W&B's own process is still writing; `teardown` waits for its end.
    """
    wandb.finish()
    wandb.teardown()
    content = b""
    for file in Path("wandb").glob("offline-run-*/run-*.wandb"):
        written = file.read_bytes()
        assert len(written) > _HEADER_BYTES, f"W&B wrote nothing into {file}"
        content += written
    assert content, "W&B recorded no run here"
    return content
