"""What klarm says is approved as a whole: one file per surface, judged in its diff.

The surfaces are prose that people read, and what is noticed in many runs. `make approve` writes
these files again.
"""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pytest

from console_lines import console_lines
from docs_tables import pages, with_tables
from klarm.cli.group import klarm as command
from klarm.cli.init import default_yaml
from klarm.config import load
from klarm.settings import ConfigError
from watched_runs import watched_runs

APPROVED = Path(__file__).parent / "approved"

# What is wrong in each layer of the configuration. No message may show a SECRET.
SECRETS = ("xyzzy", "secret-x", "123123", "/services/x")
FILES = [
    "kl_explosion: {sigma_multplier: 4}",
    "kl_explosoin: {}",
    "colour: red",
    "kl_explosion: {sigma_multiplier: lots}",
    "kl_explosion: {sigma_multiplier: -1}",
    "kl_explosion: {rolling_window: 0}",
    "kl_explosion: {rolling_window: [1, 2]}",
    "kl_explosion: {sigma_multiplier: .nan}",
    "kl_explosion: {baseline_mode: rollin}",
    "kl_explosion: 5",
    "kl_explosion: off",
    "incidents: on",
    'dir: ""',
    "run: 7",
    "- a\n- b",
    "run: [broken",
    "run: a\n\tdir: b",
    "kl_explosion:\n\tmin_std: 1",
    "kl_explosion:\n  min_std: 1\n\t# a comment\n\tenabled: true",
    "stage: a\nstage: b",
    "run: a\nrun: b",
    "kl_explosion:\n  min_std: 1\n  min_std: 2",
    "framework: trll",
    "metrics: my/kl",
    "metrics: {kll: a}",
    "metrics: {kl: 7}",
    "metrics: {kl: {key: }}",
    "metrics: {kl: {}}",
    "metrics: {kl: {keys: a}}",
    "metrics: {kl: {key: a, kind: refrence_k1}}",
    "metrics: {kl: {key: a, kind: old_k3}}",
    "metrics: {reward: {key: a, kind: reference_k1}}",
    "metrics: {kl: my/kl, kl_old: my/kl}",
    "run: \x00",
    "run: 2024-13-45",
    "run: a: b",
    "slack: {webhook_url: x}",
    "team: {type: discord}",
    f"kl_explosion: {{min_std: {10**400}}}",
    "channels: {team: {type: slak}}",
    "channels: {slak: {webhook_url: x}}",
    "channels: {team: {severity: critical}}",
    "channels: {slack: {webhok_url: x}}",
    "channels: {slack: {severity: crit}}",
    "channels: {slack: {signals: [rewards]}}",
    "channels: {slack: {runs: 7}}",
    "channels: {team: }",
    "channels: {slack: secret-x}",
    "channels: secret-x",
    "channels: {7: {type: slack}}",
    "channels: {slack: {webhook_url: 123123}}",
    "channels: {slack: {webhook_url: {environment: secret-x}}}",
    "chanels: {}",
    *(
        "channels:\n  email:\n    " + line.replace("\n", "\n    ")
        for line in (
            "password: !xyzzy88 x",
            "password: !xyzzy!88 x",
            "password: !<xyzzy x",
            "password: !!int xyzzy",
            "password: !!bool xyzzy",
            "password: !!timestamp xyzzy",
            "webhook_url: *xyzzy99",
            "webhook_url: *xyzzy.99",
            "password: @xyzzy",
            "password: %xyzzy",
            "password: `xyzzy",
            "https://xyzzy.org/a: 1\nhttps://xyzzy.org/a: 2",
        )
    ),
    "https://hooks.example.org/services/x",
    "[https://hooks.example.org/services/x]",
    "channels: {slack: {https://hooks.example.org/services/x}}",
    "channels: {https://hooks.example.org/services/x: }",
    "channels: {slack: {type: https://hooks.example.org/services/x}}",
    "https://hooks.example.org/services/x: 1",
    *(
        f"channels: {{slack: {{webhook_url: {source}}}}}"
        for source in ("{env: NOT_THERE}", "{file: /not/there}", "{file: empty}", "{file: binary}")
    ),
]
VARIABLES = [
    ("KLARM_SLACK__WEBHOOK_URL", "x"),
    ("KLARM_KL_EXPLOSION__SIGMA_MULTPLIER", "4"),
    ("KLARM_KL_EXPLOSIN__MIN_STD", "4"),
    ("KLARM_KL_EXPLOSION__ROLLING_WINDOW", "many"),
    ("KLARM_KL_EXPLOSION__ENABLED", "maybe"),
    ("KLARM_DIRS", "x"),
    ("KLARM_CONFG", "x"),
    ("KLARM_KL_EXPLOSION_SIGMA_MULTIPLIER", "5"),
    ("KLARM_SIGMA_MULTIPLIER", "5"),
    ("KLARM_FRAMEWORK", "trll"),
    ("KLARM_METRICS__KL__KIND", "k9"),
    ("KLARM_METRICS__KL__KEYS", "a"),
    ("KLARM_ENABLED", "0"),
    ("KLARM_CHANNELS__SLACK", "secret-x"),
    ("KLARM_CHANNELS_SLACK_WEBHOOK_URL", "secret-x"),
    ("KLARM_CHANNELS__SLACK__WEBHOK_URL", "secret-x"),
    ("KLARM_CHANNELS__SLAK__WEBHOOK_URL", "secret-x"),
    ("KLARM_CHANEL__SLACK__WEBHOOK_URL", "secret-x"),
]

KEYWORDS: list[Mapping[str, object]] = [
    {"kl_explosions": {}},
    {"name": "a"},
    {"enabled": True},
    {"kl": "my/kl"},
    {"memory_steps": 5},
    {"confirm_steps": 3},
    {"kl_explosion": {"sigma": 5}},
    {"run": "my/run", "kl_explosion": {"warmup_steps": -1}},
    {"detectors": {"kl_explosion": {}}},
    {"detectors": [object]},
    {"channels": {"slack": None}},
    {"channels": {"email": {"password": {"env": "NOT_THERE"}}}},
    {"channels": {"email": {"ca_file": "/none"}}},
]
COMMANDS = [
    "replay log.csv --set kl_explosion.sigma_multiplier",
    "replay log.csv --set kl_explosion.sigma=5",
    "replay log.csv --set kl_explosion.sigma_multiplier=many",
    "replay log.csv --map kl",
    "replay log.csv --map kll=kl",
    "replay log.csv --config klarm-prd.yaml",
    "detectors kl_explosoin",
    "demo --page --fast",
]


def help_of_every_command() -> str:
    """Return `--help` of all commands, 80 columns wide wherever it is rendered."""
    context = command.make_context("klarm", [], resilient_parsing=True, terminal_width=80)
    pages = [command.get_help(context)]
    for name, one in sorted(command.commands.items()):
        own = one.make_context(name, [], context, resilient_parsing=True)
        pages.append(one.get_help(own))
    return "\n\n\n".join(pages)


def mistakes() -> dict[str, list[tuple[object, str]]]:
    """Return by its place each mistake with what is said of it."""
    Path("empty").touch()
    Path("binary").write_bytes(b"\xff\xfe\xff")
    Path("log.csv").write_text("step,kl\n1,0.1\n")
    Path("klarm-prod.yaml").touch()
    mail = "channels: {email: {host: mail.example.org, sender: a@b.org, recipients: a@b.org}}"
    return {
        "klarm.yaml": [(text, in_file(text)) for text in FILES],
        "environment": [(pair, in_file("", dict([pair]))) for pair in VARIABLES],
        "klarm.init()": [(given, in_file(mail, {}, given)) for given in KEYWORDS],
        "command": [(line, on_command_line(line)) for line in COMMANDS],
    }


def errors_of_configuration() -> str:
    """Return what is said of each mistake: in the file, a variable, a keyword, a command."""
    return "\n\n".join(
        "\n\n".join([f"# {place}", *(f"{shown(mistake)}\n-> {said}" for mistake, said in found)])
        for place, found in mistakes().items()
    )


def shown(mistake: object) -> str:
    """Return a mistake as a reader can see it, and not endlessly."""
    text = "=".join(mistake) if isinstance(mistake, tuple) else str(mistake)
    return "\n".join(line.encode("unicode_escape").decode()[:90] for line in text.split("\n"))


def in_file(
    text: str,
    environment: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> str:
    """Return what is said of a configuration."""
    Path("klarm.yaml").write_text(text)
    try:
        load(environment=environment or {}, overrides=overrides).channels()
    except ConfigError as error:
        return str(error)
    return NOTHING


def on_command_line(line: str) -> str:
    """Return what a command complains of."""
    Path("klarm.yaml").unlink(missing_ok=True)
    try:
        command.main(line.split(), prog_name="klarm", standalone_mode=False)
    except (click.ClickException, ConfigError) as error:
        return error.format_message() if isinstance(error, click.ClickException) else str(error)
    return NOTHING


NOTHING = "(nothing is wrong)"
SURFACES: dict[str, Callable[[], str]] = {
    "help.txt": help_of_every_command,
    "config-errors.txt": errors_of_configuration,
    "klarm.yaml": default_yaml,
    "console.txt": console_lines,
    "watched-runs.txt": watched_runs,
}


@pytest.mark.parametrize("name", SURFACES)
def test_what_people_read_is_as_approved(name: str) -> None:
    """Every change of a word is seen, and meant."""
    said, approved = f"{SURFACES[name]().rstrip()}\n", (APPROVED / name).read_text()
    diff = difflib.unified_diff(
        approved.splitlines(), said.splitlines(), "approved", "now", lineterm=""
    )
    assert said == approved, "\n".join(["make approve writes it again; read the diff:", *diff])


def test_every_mistake_is_an_error_that_says_where_and_shows_no_secret() -> None:
    """A value may be a secret in the wrong place."""
    found = mistakes()
    all_said = [said for of_place in found.values() for _, said in of_place]
    assert [said for said in all_said if said == NOTHING] == []
    assert [said for said in all_said if any(secret in said for secret in SECRETS)] == []
    assert all(said.startswith(("klarm.yaml: ", "metrics.")) for _, said in found["klarm.yaml"])
    assert all(said.startswith(f"environment: {pair[0]}") for pair, said in found["environment"])  # type: ignore[index]
    assert all("klarm.init(): " in said for _, said in found["klarm.init()"])


def approve() -> None:
    """Write every approved file as it is said now, and the tables of the docs."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, surface in SURFACES.items():
            (APPROVED / name).write_text(f"{surface().rstrip()}\n")
    for page in pages():
        page.write_text(with_tables(page.read_text()))


if __name__ == "__main__":
    approve()
