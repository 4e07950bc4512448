"""Detectors and channels that a script gives to klarm.init.

Covers extras.py, reader.py and config.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

import klarm
from cases import over
from klarm.cli.group import klarm as command
from klarm.detectors import KLExplosionDetector
from own_parts import SENT, ListChannel, PassRateDetector
from recorded_lines import lines_of


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


def falling(step: int) -> dict[str, float]:
    return {"kl": 0.02, "train/pass_rate": 0.5 if step < 20 else 0.05}


def test_a_detector_of_a_script_is_like_klarms_own() -> None:
    """Its alerts, incident, journal lines and message, on a metric that klarm does not know."""
    monitor = klarm.init(
        "a", console=False, detectors=[PassRateDetector()], channels=[ListChannel(prefix="x")]
    )
    alerts = [alert for step in range(40) for alert in klarm.log(falling(step), step)]
    klarm.finish()
    assert {alert.detector for alert in alerts} == {"pass_rate_floor"}
    assert [alert.step for alert in alerts] == list(range(20, 40))
    (incident,) = monitor.incidents
    assert (incident.signal, incident.metric, incident.opened) == ("pass_rate", "pass_rate", 24)
    assert len(lines_of("a", "alert")) == 20
    assert [row["event"] for row in lines_of("a", "event")] == ["opened", "ended"]
    assert SENT[0].title == "a: pass_rate critical, began at step 20 (opened at step 24)"
    assert SENT[0].metric == "pass_rate"
    assert len(SENT[0].curve) > 20


def test_its_section_is_in_the_file_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the script sets by hand wins over both, as any keyword of klarm.init does."""
    Path("klarm.yaml").write_text("pass_rate_floor: {floor: 0.2, warmup_steps: 3}\n")
    monkeypatch.setenv("KLARM_PASS_RATE_FLOOR__WARMUP_STEPS", "4")

    def watching(**settings: object) -> PassRateDetector:
        own = PassRateDetector(**settings)  # type: ignore[arg-type]
        found = klarm.init("a", console=False, detectors=[own]).detectors[-1]
        assert isinstance(found, PassRateDetector)
        return found

    assert (watching().floor, watching().warmup_steps) == (0.2, 4)
    assert (watching(floor=0.3).floor, watching(floor=0.3).warmup_steps) == (0.3, 4)
    assert lines_of("a", "run")[-1]["config"]["pass_rate_floor"]["floor"] == 0.3
    with pytest.raises(klarm.ConfigError, match=r"floorr is unknown; did you mean floor\?"):
        klarm.init("a", detectors=[PassRateDetector], pass_rate_floor={"floorr": 1})
    with pytest.raises(klarm.ConfigError, match="pass_rate_floor is unknown"):
        klarm.init("a")


class HasInit(PassRateDetector):
    """A detector with an `__init__` of its own, as people write it without dataclasses."""

    name: ClassVar[str] = "has_init"

    def __init__(self, floor: float = 0.1) -> None:
        super().__init__(floor=floor)


def test_a_value_given_in_the_script_wins_even_if_it_is_the_default() -> None:
    """For detectors and channels, as for sections that are given as keywords."""
    Path("klarm.yaml").write_text(
        "pass_rate_floor: {floor: 0.2}\nhas_init: {floor: 0.2}\n"
        "kl_explosion: {sigma_multiplier: 9}\n"
        "channels: {list: {prefix: from file, timeout_seconds: 3}}\n"
    )
    default = KLExplosionDetector().sigma_multiplier
    config = klarm.Config.load(
        detectors=[
            PassRateDetector(floor=0.1),
            HasInit(floor=0.1),
            KLExplosionDetector(sigma_multiplier=default),
        ],
        channels=[ListChannel(prefix="")],
    )
    found = {one.name: one for one in config.detectors()}
    assert (found["pass_rate_floor"].floor, found["has_init"].floor) == (0.1, 0.1)  # type: ignore[attr-defined]
    assert found["kl_explosion"].sigma_multiplier == default  # type: ignore[attr-defined]
    (route,) = config.channels()
    assert (route.channel.prefix, route.channel.timeout_seconds) == ("", 3.0)  # type: ignore[attr-defined]


def test_an_object_is_given_twice_and_two_monitors_share_nothing() -> None:
    """Every monitor has a detector of its own, with its own state."""
    own = PassRateDetector(floor=0.2)
    first = klarm.init("a", console=False, detectors=[own])
    first.log({"pass_rate": 0.01})
    second = klarm.init("b", console=False, detectors=[own])
    assert first.detectors[-1] is not second.detectors[-1]
    assert (own.lowest, second.detectors[-1].lowest) == (math.inf, math.inf)  # type: ignore[attr-defined]


def test_a_run_with_a_detector_of_its_own_is_resumed_from_the_journal() -> None:
    """Nobody knows what its attributes mean, so there is no snapshot: rows are read again."""
    for step in range(4_100):
        if step == 0:
            klarm.init("a", console=False, detectors=[PassRateDetector()])
        klarm.log({"pass_rate": 0.5 - (step == 7) * 0.3}, step)
    klarm.finish()
    assert not list(Path("klarm_runs/a").glob("snapshots/*"))
    monitor = klarm.init("a", console=False, detectors=[PassRateDetector()])
    (alert,) = klarm.log({"pass_rate": 0.01}, 4_100)
    assert monitor.detectors[-1].lowest == 0.01  # type: ignore[attr-defined]
    monitor.resume(4_000)
    assert monitor.detectors[-1].lowest == 0.2  # type: ignore[attr-defined]
    assert alert.message == "Pass rate 0.01, lowest 0.01."


def test_a_rank_that_records_nothing_goes_back_with_it_too() -> None:
    """It keeps the metrics that any detector reads."""
    monitor = klarm.init("a", console=False, detectors=[PassRateDetector()], rank=1)
    for step in range(30):
        klarm.log({"pass_rate": 0.5 - (step == 25) * 0.3, "whatever": 1.0}, step)
    monitor.resume(20)
    assert monitor.detectors[-1].lowest == 0.5  # type: ignore[attr-defined]


def test_klarms_own_may_be_given_as_an_object() -> None:
    """It is the same as its section; there are not two of it."""
    monitor = klarm.init("a", console=False, detectors=[KLExplosionDetector(sigma_multiplier=7.0)])
    (found,) = [one for one in monitor.detectors if one.name == "kl_explosion"]
    assert found.sigma_multiplier == 7.0  # type: ignore[attr-defined]


class NoDecorator(klarm.Detector):
    name: ClassVar[str] = "undecorated"
    signal: ClassVar[str] = "kl"
    watches: ClassVar[tuple[str, ...]] = ("kl",)
    messages: ClassVar[Mapping[str, str]] = {"warning": "Low."}
    recommendations: ClassVar[Mapping[klarm.Severity, str]] = {"warning": "Look."}
    floor: float = klarm.setting(0.0, "a floor")

    def _start(self) -> None: ...

    def _observe(self, step: int, value: float) -> None: ...


class TakesAName(PassRateDetector):
    name: ClassVar[str] = "kl_explosion"


class Unwatching(PassRateDetector):
    watches: ClassVar[tuple[str, ...]] = ("objective/kl",)


class Raising(PassRateDetector):
    def _start(self) -> None:
        raise OSError("no model at /models/judge")


class Empty(klarm.Detector):
    """A detector that implements the methods, and names nothing."""

    def _start(self) -> None: ...

    def _observe(self, step: int, value: float) -> None: ...


class Named(Empty):
    name: ClassVar[str] = "named"
    signal: ClassVar[str] = "kl"


class WatchesNothing(Named):
    watches: ClassVar[tuple[str, ...]] = ()


class WatchesText(Named):
    watches: ClassVar = "kl"


class Typeless(klarm.Channel):
    def send(self, message: klarm.Message, earlier: Mapping[str, str]) -> dict[str, str]:
        return {}


@over(
    "kind, expected",
    [
        (Empty, r'Empty has no name; add one to the class, as in name: ClassVar\[str\] = "'),
        (Named, r"Named has no watches; add one to the class, as in watches: ClassVar\[tuple"),
        (WatchesNothing, r'WatchesNothing.watches must name a metric, as in \("kl",\)'),
        (WatchesText, r"WatchesText.watches must be a tuple, got 'kl'"),
        (Typeless, r"Typeless has no type; add one to the class, as in type: ClassVar\[str\]"),
    ],
)
def test_a_class_without_a_name_or_a_metric_says_what_to_add(kind: type, expected: str) -> None:
    """Whether the script makes the object or gives the class."""
    with pytest.raises(klarm.ConfigError, match=expected):
        kind()
    keyword = "channels" if issubclass(kind, klarm.Channel) else "detectors"
    with pytest.raises(klarm.ConfigError, match=expected):
        klarm.init("a", **{keyword: [kind]})  # type: ignore[arg-type]
    assert not Path("klarm_runs").exists()


@over(
    "given, expected",
    [
        ([NoDecorator], r"NoDecorator has settings and lacks @dataclass\(kw_only=True, eq=False\)"),
        ([klarm.Detector], "Detector does not implement _observe, _start"),
        ([TakesAName], "TakesAName cannot be called kl_explosion, which is a name of klarm's own"),
        ([Unwatching], "watches has objective/kl, which klarm reads as kl: watch that"),
        ([Raising], "Raising cannot be made: OSError: no model at /models/judge"),
        ([PassRateDetector(), PassRateDetector()], "detectors has pass_rate_floor twice"),
        ({"kl_explosion": {}}, r"must be a list of detectors, as in detectors=\[MyDetector\(\)\]"),
        ([lambda: 1], "function is not a subclass of klarm.Detector"),
    ],
)
def test_what_is_no_detector_is_refused_before_training(given: object, expected: str) -> None:
    """With what to do about it."""
    with pytest.raises(klarm.ConfigError, match=expected):
        klarm.init("a", detectors=given)  # type: ignore[arg-type]
    assert not Path("klarm_runs").exists()


def test_a_channel_of_a_script_has_a_section_and_its_secret_stays_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As klarm's own have."""
    Path("klarm.yaml").write_text("channels: {list: {severity: critical, prefix: from file}}\n")
    secret = "xyzzy-0123456789"
    config = klarm.Config.load(channels=[ListChannel(token=klarm.Secret(secret))])
    (route,) = config.channels()
    assert isinstance(route.channel, ListChannel)
    assert (route.severity, route.channel.prefix) == ("critical", "from file")
    assert route.channel.token.reveal() == secret
    assert secret not in str(config.as_dict()) + repr(route)
    Path("klarm.yaml").unlink()
    config = klarm.Config.load(channels={"one": ListChannel(), "two": ListChannel(prefix="b")})
    assert [route.channel.name for route in config.channels()] == ["one", "two"]
    with pytest.raises(klarm.ConfigError, match="channels has list twice: give one of them a name"):
        klarm.Config.load(channels=[ListChannel(), ListChannel()])
    with pytest.raises(klarm.ConfigError, match="PassRateDetector is not a subclass"):
        klarm.init("a", channels=[PassRateDetector()])  # type: ignore[list-item]


def test_init_takes_a_config_and_keywords_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment was read when it was loaded, and is not read again."""
    monkeypatch.setenv("KLARM_KL_BUDGET__BUDGET_NATS", "3")
    own = [PassRateDetector(floor=0.2)]
    config = klarm.Config.load(detectors=own, channels=[ListChannel()], console=False)
    monkeypatch.setenv("KLARM_KL_BUDGET__BUDGET_NATS", "4")
    monitor = klarm.init("a", config, kl_explosion={"sigma_multiplier": 5.0})
    settings = lines_of("a", "run")[0]["config"]
    assert settings["kl_budget"]["budget_nats"] == 3.0  # type: ignore[index]
    assert settings["kl_explosion"]["sigma_multiplier"] == 5.0  # type: ignore[index]
    assert list(settings["channels"]) == ["list"]  # type: ignore[index]
    assert monitor.detectors[-1].floor == 0.2  # type: ignore[attr-defined]
    assert klarm.init(config=klarm.Config(run="b", console=False)).run == "b"
    with pytest.raises(klarm.ConfigError, match=r"kl_explosion.sigma_multplier is unknown"):
        klarm.init(config=klarm.Config(sections={"kl_explosion": {"sigma_multplier": 5}}))


def test_commands_read_a_file_with_sections_that_only_the_script_knows() -> None:
    """They do not train; what is spelt nearly right is refused all the same."""
    Path("klarm.yaml").write_text(
        "pass_rate_floor: {floor: 0.2}\nchannels: {list: {signals: [pass_rate]}}\n"
    )
    klarm.init("a", console=False, detectors=[PassRateDetector], channels=[ListChannel()])
    for step in range(30):
        klarm.log(falling(step), step)
    klarm.finish()
    said = CliRunner().invoke(command, ["incidents", "a"])
    assert said.exit_code == 0, said.output
    assert "pass_rate" in said.output
    said = CliRunner().invoke(command, ["silence", "pass_rate", "--for", "2h"])
    assert said.exit_code == 0, said.output
    said = CliRunner().invoke(command, ["replay", "klarm_runs/a"])
    assert said.exit_code == 0, said.output
    assert "watched with the detector pass_rate_floor, which is not installed here" in said.output
    Path("klarm.yaml").write_text("kl_explosoin: {sigma_multiplier: 5}\n")
    assert "did you mean kl_explosion?" in str(CliRunner().invoke(command, ["incidents"]).exception)
