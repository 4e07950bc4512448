"""A channel of your own: appends every message to a file, one JSON object per line.

    python examples/custom_channel.py [STEPS]

It needs numpy and klarm. The run is made up: its KL explodes at two thirds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

import klarm
from klarm import Channel, Message, setting


@dataclass(kw_only=True, repr=False)
class FileChannel(Channel):
    """Appends messages to a file. A real one would post them; declare a token as `klarm.Secret`."""

    type: ClassVar[str] = "file"

    path: str = setting("messages.jsonl", "the file to append to")

    def send(self, message: Message, earlier: Mapping[str, str]) -> dict[str, str]:
        """Deliver a message, or say why not and whether to try again."""
        line = {"title": message.title, "body": message.body, "follows": earlier.get("line", "")}
        try:
            with Path(self.path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                number = file.tell()
        except OSError as error:
            raise self.not_delivered(str(error.strerror), retry=True) from None
        return {"line": str(number)}  # it comes back as `earlier` with the incident's next message


def main(steps: int) -> None:
    """Train, in a manner of speaking."""
    noise = np.random.default_rng(0)
    klarm.init("custom-channel", channels=[FileChannel(path="messages.jsonl")])
    for step in range(steps):
        kl = 0.02 + noise.normal(0, 0.002)
        if step > 2 * steps // 3:
            kl *= 1.5 ** (step - 2 * steps // 3)
        klarm.log({"kl": kl, "reward": noise.normal(0.5, 0.05)}, step)
    klarm.finish()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 150)
