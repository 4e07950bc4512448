"""`klarm init`: writes a klarm.yaml with every setting, its default and its meaning."""

from __future__ import annotations

import json
from pathlib import Path

import click

from klarm.channels import usable_channels
from klarm.config import DEFAULT_FILE, TOP_LEVEL, json_schema, known_sections
from klarm.settings import Setting
from klarm.terminal import echo

SCHEMA_FILE = "klarm.schema.json"

_TAIL = """
# Where to read a metric whose key klarm does not know (see docs/metrics.md):
# metrics:
#   kl: {key: my/kl, kind: reference_k1}
#   reward: my/reward
"""

# Editors with a YAML language server (VS Code, Neovim, JetBrains ...) read this line.
_EDITORS = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"
_HEAD = """\
# klarm: what to watch and how. Every setting is here with its default; delete what you do not
# change. The environment (KLARM_KL_EXPLOSION__SIGMA_MULTIPLIER=5) and klarm.init(...) override it.
"""
_CHANNELS = """
# Who is notified of incidents. The names are yours. docs/channels/index.md has the types:
# {types}.
# channels:
#   team:
#     type: slack
#     webhook_url: {env: SLACK_WEBHOOK}   # or {file: /run/secrets/slack}
#     severity: warning                   # the lowest that is sent
#   pager:
#     type: pagerduty
#     routing_key: {env: PAGERDUTY_KEY}
#     severity: critical
#     signals: [kl, loss]                 # all, if left out
#     runs: "grpo-*"
"""


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=Path(DEFAULT_FILE))
def init(file: Path) -> None:
    """Write a commented klarm.yaml with every default. Never overwrites.

    It also writes a JSON Schema, with which editors complete and check the file.
    """
    schema = file.parent / SCHEMA_FILE
    is_ours = not schema.exists() or _is_schema(schema)
    try:
        with file.open("x", encoding="utf-8") as target:
            target.write((_EDITORS if is_ours else "") + default_yaml())
        echo(f"wrote {file}: every setting with its default")
        if is_ours:
            schema.write_text(json.dumps(json_schema(), indent=2) + "\n", encoding="utf-8")
            echo(f"wrote {schema}: editors check {file.name} with it")
    except FileExistsError:
        raise click.ClickException(f"{file} already exists and is not changed") from None
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror}") from None


def _is_schema(path: Path) -> bool:
    """Return whether a file is a schema that this or an earlier version of klarm wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("title") == DEFAULT_FILE


def default_yaml() -> str:
    """Return the text of a klarm.yaml with all defaults."""
    parts = [_HEAD]
    parts += [_line(declared, indent="") for declared in TOP_LEVEL.values()]
    for name, settings in known_sections().items():
        parts.append(f"\n{name}:\n")
        parts += [_line(declared, indent="  ") for declared in settings.values()]
    parts += [_TAIL, _CHANNELS.replace("{types}", ", ".join(usable_channels()))]
    return "".join(parts)


def _line(declared: Setting, indent: str) -> str:
    entry = f"{indent}{declared.name}: {_spell(declared.default)}"
    return f"{entry:<28} # {declared.meaning}\n"


def _spell(value: object) -> str:
    """Return a value as YAML has it.

    >>> _spell(True), _spell(1e-06), _spell(0.5), _spell("")
    ('true', '1.0e-06', '0.5', "''")
    """
    import yaml

    return yaml.safe_dump(value).partition("\n")[0]
