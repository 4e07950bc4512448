"""Which alerts a console shows that no incident tells of: the first of an episode."""

from __future__ import annotations

import math
import re
import shlex

import pytest
from click.testing import CliRunner

import klarm
from klarm.cli.demo import read_recording
from klarm.cli.group import klarm as command
from klarm.console import Console
from klarm.types import Alert

QUIET = [0.02 + 0.001 * (step % 3) for step in range(40)]


def watch(values: list[float], **settings: object) -> list[Alert]:
    """Log these values of KL and end the run; return the alerts."""
    with klarm.init("a", **settings) as monitor:
        return [alert for value in values for alert in monitor.log({"kl": value})]


def unconfirmed(shown: str) -> list[str]:
    """Return the lines about alerts that are not confirmed."""
    lines = shown.splitlines()
    return [line for line in lines if "not confirmed" in line and line.startswith("klarm: step ")]


def test_the_first_alert_of_an_episode_is_shown_and_the_rest_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Three steps at hundreds of σ: one line, and the count at the end."""
    alerts = watch([*QUIET, 0.9, 1.9, 3.9, *QUIET])
    shown = capsys.readouterr().err
    (line,) = unconfirmed(shown)
    assert line.startswith("klarm: step 40, kl_explosion critical, not confirmed yet: KL 0.9 is ")
    critical = sum(alert.severity == "critical" for alert in alerts)
    count = f"{len(alerts)} alerts ({critical} critical)"
    assert f"klarm: {count} opened no incident; list them with: klarm replay" in shown
    assert "\n  kl_explosion needs 50 consecutive rows with an alert\n" in shown
    assert len(alerts) > 1


def test_the_command_at_the_end_lists_these_very_alerts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As it stands, copied from the terminal."""
    alerts = watch([*QUIET, 0.9, 1.9, 3.9, *QUIET])
    (said,) = re.findall(r"list them with: klarm (.*)", capsys.readouterr().err)
    result = CliRunner().invoke(command, shlex.split(said))
    assert result.exit_code == 0
    assert all(f"{alert.detector}: {alert.message}" in result.output for alert in alerts)


def test_twenty_quiet_rows_end_an_episode(capsys: pytest.CaptureFixture[str]) -> None:
    """`resolve_after`, counted in rows of the signal: other metrics in between count nothing."""
    for apart, lines in ((19, 1), (20, 2)):
        with klarm.init("a", dir=str(apart), kl_explosion={"rolling_window": 10}) as monitor:
            for value in [*QUIET, 0.9, *QUIET[:apart], 0.9]:
                monitor.log({"kl": value})
                for _ in range(3):
                    monitor.log({"reward": 1.0})
        assert len(unconfirmed(capsys.readouterr().err)) == lines


def test_resolve_after_is_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    """Also the one of the detector alone."""
    window = {"rolling_window": 10}
    for settings in (
        {"incidents": {"resolve_after": 15}, "kl_explosion": window},
        {"kl_explosion": {**window, "resolve_after": 15}},
    ):
        watch([*QUIET, 0.9, *QUIET[:15], 0.9], dir=str(len(settings)), **settings)
        assert len(unconfirmed(capsys.readouterr().err)) == 2


def test_what_an_incident_reports_is_not_shown_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """A NaN opens one at once: the box says it, and no alert in it is unconfirmed."""
    watch([*QUIET, math.nan, 0.9, *QUIET])
    shown = capsys.readouterr().err
    assert "INCIDENT 1 on kl opened" in shown
    assert not unconfirmed(shown)


def test_the_first_critical_alert_is_shown_after_a_warning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An earlier warning holds back nothing critical."""
    watch([*QUIET, 0.0245, *QUIET[:5], 0.9, 1.9, *QUIET[:5], 3.9])
    shown = unconfirmed(capsys.readouterr().err)
    assert [line.split()[4].rstrip(",") for line in shown] == ["warning", "critical"]


def test_each_signal_has_episodes_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """A spike of KL does not hide that of the gradient."""
    with klarm.init("a") as monitor:
        for value in [*QUIET, 0.9, *QUIET[:5]]:
            monitor.log({"kl": value, "grad_norm": value})
    shown = unconfirmed(capsys.readouterr().err)
    assert [line.split()[3] for line in shown] == ["kl_explosion", "gradient_norm_spike"]


def test_all_of_them_if_they_are_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    """`console_alerts: true`; then nothing is left to list."""
    alerts = watch([*QUIET, 0.9, 1.9, 3.9, *QUIET], console_alerts=True)
    shown = capsys.readouterr().err
    assert shown.count(", kl_explosion: ") == sum(a.detector == "kl_explosion" for a in alerts)
    assert f"klarm: {len(alerts)} alerts (" in shown
    assert not unconfirmed(shown)


def test_a_run_that_is_not_recorded_names_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to replay."""
    monitor = klarm.Monitor("a", klarm.Config().detectors(), console=Console())
    for value in [*QUIET, 0.9, *QUIET]:
        monitor.log({"kl": value})
    monitor.finish()
    shown = capsys.readouterr().err
    assert "alert" in shown
    assert "klarm replay" not in shown


def test_a_run_without_alerts_does_not_speak_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Nor one whose console is off."""
    watch(QUIET)
    watch([*QUIET, 0.9], dir="off", console=False)
    assert "alert" not in capsys.readouterr().err


def test_a_rollback_begins_a_new_episode(capsys: pytest.CaptureFixture[str]) -> None:
    """What comes again is news again."""
    with klarm.init("a") as monitor:
        for step, value in [*enumerate([*QUIET, 0.9]), (39, 0.0215), (40, 0.8)]:
            monitor.log({"kl": value}, step)
    assert len(unconfirmed(capsys.readouterr().err)) == 2


def test_a_healthy_run_shows_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """The recorded one: several alerts, and at most one line for twenty rows."""
    with klarm.init("a") as monitor:
        alerts = [monitor.log(row, row["step"]) for row in read_recording("healthy")]
    assert 0 < len(unconfirmed(capsys.readouterr().err)) < sum(map(len, alerts))
