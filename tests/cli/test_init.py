"""`klarm init` writes a file with every setting, and never overwrites one."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import yaml
from click.testing import CliRunner

from klarm.cli.group import klarm as command
from klarm.config import SECTIONS, TOP_LEVEL, load
from own_parts import GOOD, PACKAGE, install


def test_the_file_holds_every_setting_and_changes_none() -> None:
    """Reading the file gives the defaults."""
    before = load(None).as_dict()
    done = CliRunner().invoke(command, ["init"])
    assert (done.exit_code, done.output) == (
        0,
        "wrote klarm.yaml: every setting with its default\n"
        "wrote klarm.schema.json: editors check klarm.yaml with it\n",
    )
    written = yaml.safe_load(Path("klarm.yaml").read_text())
    assert list(written) == [*TOP_LEVEL, *SECTIONS]
    assert load(None).as_dict() == before


def test_an_existing_file_is_not_changed() -> None:
    """This holds for any file name."""
    Path("mine.yaml").write_text("run: a\n")
    done = CliRunner().invoke(command, ["init", "mine.yaml"])
    assert done.exit_code == 1
    assert "mine.yaml already exists and is not changed" in done.output
    assert Path("mine.yaml").read_text() == "run: a\n"


def test_a_file_that_cannot_be_written_is_an_error() -> None:
    """The message has the reason."""
    done = CliRunner().invoke(command, ["init", "missing/klarm.yaml"])
    assert done.exit_code == 1
    assert "cannot write missing/klarm.yaml: No such file or directory" in done.output


def test_editors_find_the_schema_beside_the_file() -> None:
    """The first line names the schema, and the file is valid."""
    Path("conf").mkdir()
    assert CliRunner().invoke(command, ["init", "conf/my.yaml"]).exit_code == 0
    text = Path("conf/my.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=klarm.schema.json\n")
    schema = json.loads(Path("conf/klarm.schema.json").read_text())
    jsonschema_rs.Draft7Validator(schema).validate(yaml.safe_load(text))


def test_the_types_of_channels_include_those_of_packages(site: None) -> None:
    """Those that can be used."""
    install("late_package", PACKAGE, f"{GOOD}    broken = late_package:NoChannel\n")
    assert CliRunner().invoke(command, ["init"]).exit_code == 0
    assert "desktop, apprise, heartbeat, void.\n" in Path("klarm.yaml").read_text()


def test_only_a_schema_that_klarm_wrote_is_replaced() -> None:
    """Otherwise the line is left out, because it would name the wrong file."""
    Path("klarm.schema.json").write_text('{"title": "klarm.yaml"}')
    assert CliRunner().invoke(command, ["init"]).exit_code == 0
    assert "properties" in json.loads(Path("klarm.schema.json").read_text())
    Path("klarm.schema.json").write_text("mine")
    assert CliRunner().invoke(command, ["init", "other.yaml"]).exit_code == 0
    assert Path("klarm.schema.json").read_text() == "mine"
    assert "yaml-language-server" not in Path("other.yaml").read_text()
