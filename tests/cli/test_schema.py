"""`klarm schema`: the JSON Schema of klarm.yaml."""

from __future__ import annotations

import json

from click.testing import CliRunner

from klarm.cli.group import klarm as command
from klarm.config import json_schema


def test_the_schema_is_printed_as_json() -> None:
    """The output is the complete schema, and nothing else."""
    done = CliRunner().invoke(command, ["schema"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == json_schema()
