"""Control characters from every input to every output: none arrives as it is.

Journals are rewritten field by field, channels and commands are taken from their catalogues: a new
one joins by itself.
"""

from __future__ import annotations

import json
import logging
import math
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

import klarm
from channels.conftest import Service, reply
from faults.every_channel import EchoingMail, called, every_call, service, setups, smtp
from klarm.console import Console
from klarm.delivery import log as deliveries
from klarm.detectors import KLExplosionDetector
from klarm.journal import FileJournal, Source, append_command
from klarm.journal.checksum import sealed
from klarm.journal.records import decoded
from klarm.monitor.monitor import Monitor
from klarm.types import Alert, Command, Severity
from made_alerts import made_alert

__all__ = ["service", "smtp"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of apprise

# Sets the title of a terminal, a colour by a single character, the direction of writing; a bell, a
# return that overwrites the line, half a character.
HOSTILE = "\x1b]0;pwned\x07\x9b31m\u202e\r\udcff"
RAW = ("\x1b]0", "pwned\x07", "\x9b", "\u202e", "\udcff")


def raw(text: str | bytes) -> list[str]:
    """Return which of the characters are in an output as they are."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return [repr(piece) for piece in RAW if piece in text]


class Hostile(KLExplosionDetector):
    """A detector of somebody's own, whose words come from anywhere."""

    name: ClassVar[str] = "hostile"
    messages: ClassVar[Mapping[str, str]] = {"odd": f"{{mood}} {HOSTILE}"}
    recommendations: ClassVar[Mapping[Severity, str]] = {"critical": HOSTILE}

    def update(self, step: int, metrics: Mapping[str, float]) -> Alert | None:
        if step == 3:
            raise RuntimeError(HOSTILE)
        if step < 5:
            return None
        details = {"kl": 9.0, "mood": HOSTILE}
        return made_alert(details, step=step, detector=self.name, decisive=True, case="odd")


def hostile_run(monitor: Monitor) -> None:
    """Hand over all that a trainer can, with the characters wherever a text is."""
    kind = type("Odd" + HOSTILE.replace("\udcff", ""), (), {})
    for step in range(8):
        row = {
            f"loss/{HOSTILE}": 1.0,
            "nested": {HOSTILE: {HOSTILE: 2.0}},
            f"kl{HOSTILE}": 1.0,
            "kl": 0.1,
            "entropy": kind(),
            "reward": HOSTILE,
            HOSTILE * 100: 1.0,
        }
        monitor.log(row, step)
    monitor.checkpoint(8, f"/ckpt/{HOSTILE}")
    monitor.checkpoint(HOSTILE, "x")  # type: ignore[arg-type]
    monitor.log({f"critic_loss{HOSTILE}": math.nan, "kl": math.nan}, 9)
    monitor.log({"kl": 0.1}, HOSTILE)
    monitor.say(f"an integration says {HOSTILE}")
    monitor._source(Source(f"/log/{HOSTILE}", 0, HOSTILE))
    monitor.resume(HOSTILE)  # type: ignore[arg-type]
    monitor.apply(Command(command="close", key="1", time=0.0, by=HOSTILE, incident="x"))


def test_nothing_of_a_run_reaches_its_outputs_raw(
    service: Service,
    smtp: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Console, records of logging, journal, deliveries, and the messages of every channel."""
    monkeypatch.setattr("klarm.boundary.raise_failures", False)
    caplog.set_level(logging.DEBUG)
    ids = dict.fromkeys(("ts", "id", "channel"), HOSTILE[:-1])
    service.answers[:] = [reply(200, {"ok": True, **ids})]
    mails: list[bytes] = []
    monkeypatch.setattr(EchoingMail, "refuses", b"NOTHING")
    monkeypatch.setattr(EchoingMail, "heard", mails)
    channels = setups(service.url, smtp)
    with klarm.init(
        "a",
        url=f"https://example.org/{HOSTILE}",
        channels=channels,
        console_alerts=True,
        framework=HOSTILE,
        detectors=[Hostile()],
    ) as monitor:
        hostile_run(monitor)
        monitor.finish(timeout=30.0)
    shown = capfd.readouterr()
    assert raw(shown.out + shown.err + caplog.text) == []
    assert r"\x1b]0;pwned" in shown.err
    files = [path for path in Path("klarm_runs/a").iterdir() if path.is_file()]
    assert {"journal.jsonl", "deliveries.jsonl"} <= {path.name for path in files}
    assert [(path.name, raw(path.read_bytes())) for path in files if raw(path.read_bytes())] == []
    assert len(service.calls) >= len(channels) - 2
    for call in service.calls:
        assert raw(call.body) == []
        if call.headers["Content-Type"].startswith("application/json"):
            assert raw(json.dumps(json.loads(call.body), ensure_ascii=False)) == []
        assert raw(str(call.headers) + call.path) == []
    assert mails
    assert raw(b"".join(mails)) == []


def test_nothing_of_a_run_reaches_a_terminal_raw() -> None:
    """A real one, where incidents are panels with escape sequences of our own."""
    code = """
        import math, klarm
        from faults.test_escape_matrix import hostile_run
        from klarm import boundary
        boundary.raise_failures = False
        hostile_run(klarm.init("a", console_alerts=True))
        klarm.finish()
    """
    script = "import sys\nsys.path[:0] = sys.argv[1:]\n" + code.replace("\n        ", "\n")
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", script, *sys.path], stderr=slave, stdout=slave
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                shown += (piece := os.read(master, 65_536))
            except OSError:  # the other end is closed
                break
            if not piece:
                break
    os.close(master)
    assert process.returncode == 0, shown.decode()
    assert b"incident 1 on" in shown
    assert raw(shown) == []


def poisoned(line: bytes, decode: Callable[[bytes], object]) -> Iterator[bytes]:
    """Yield a line once for each text in it that may be anything, with the characters there."""
    document = json.loads(line)
    document.pop("crc", None)

    def places(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        if isinstance(part, str):
            yield path
        for key, inner in part.items() if isinstance(part, dict) else ():
            yield from places(inner, (*path, key))
        for at, inner in enumerate(part if isinstance(part, list) else ()):
            yield from places(inner, (*path, at))

    safe = HOSTILE.replace("\udcff", "")  # no file of text has that one
    for path in places(document):
        changed = json.loads(json.dumps(document))
        part = changed
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] += safe
        for ascii_only in (True, False):
            text = json.dumps(changed, ensure_ascii=ascii_only, separators=(",", ":"))
            found = sealed(text.encode())
            if decode(found) is not None:
                yield found


def foreign_run(folder: Path) -> int:
    """Record a run as somebody might who means ill; return how many texts are poisoned."""
    journal = FileJournal(folder, print)
    monitor = Monitor("a", [KLExplosionDetector()], journal, Console(enabled=False))
    klarm.init("a", dir=str(folder.parent / "other"), console=False)  # for its run line
    klarm.finish()
    monitor.log({"kl": 0.1, "x": 1.0}, 0)
    monitor.checkpoint(0, "/ckpt/0")
    monitor._source(Source("/log", 0))
    monitor.log({"kl": math.nan}, 1)
    (known,) = monitor.critical
    command = Command(command="ack", key="k", time=1.0, by="ann", incident=known.id)
    append_command(folder, command)
    monitor.finish()
    deliveries.append(
        folder,
        deliveries.Delivered(
            id=known.id,
            seq=1,
            incident=1,
            event="opened",
            step=1,
            severity="critical",
            channel="team",
            time=1.0,
            outcome="refused",
            reason="no",
            receipt={"ts": "1"},
        ),
    )
    head = (folder.parent / "other" / "a" / "journal.jsonl").read_bytes().splitlines()[0] + b"\n"
    changed = 0
    for name in ("journal.jsonl", "deliveries.jsonl", "commands.jsonl"):
        path = folder / name
        lines = path.read_bytes().splitlines(keepends=True)
        lines = [head, *lines] if name == "journal.jsonl" else lines
        # No batch that is incomplete: the lines that belong to a step are written as alone.
        lines = [sealed(json.dumps(_alone(line), separators=(",", ":")).encode()) for line in lines]
        all_lines: list[bytes] = []
        for line in lines:
            found = list(poisoned(line, _decode if name != "journal.jsonl" else decoded))
            changed += len(found)
            all_lines += [line, *found]
        path.write_bytes(b"".join(all_lines))
    return changed


def _alone(line: bytes) -> dict[str, Any]:
    return {k: v for k, v in json.loads(line).items() if k not in ("crc", "lines")}


def _decode(line: bytes) -> object:
    return json.loads(line)


LOGS = {
    "log.jsonl": lambda: json.dumps({"step": 1, "kl": 0.1, f"x{HOSTILE}": 1, "t": HOSTILE}) + "\n",
    "log.csv": lambda: f"step,kl,x{HOSTILE}\n1,0.1,0.2\n2,{HOSTILE},0.1\n",
    "log.txt": lambda: (
        f"{{'kl': 0.1, 'x{HOSTILE}': 1}}\nstep:1 - kl:0.2 - {HOSTILE}:1.0\n{HOSTILE}\n"
    ),
    "log.json": lambda: json.dumps([{"step": 1, f"x{HOSTILE}": 1.0, "y": HOSTILE}]),
    f"odd{HOSTILE}.jsonl": lambda: f'{{"step": 1, "kl": 0.1}}\n{HOSTILE}\n',
    "nothing.jsonl": lambda: json.dumps({f"x{HOSTILE}": 1.0}) + "\n",
}


def test_no_command_brings_a_foreign_file_to_a_terminal_raw(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Journals with the characters in each of their texts, and logs of every format."""
    folder = Path("klarm_runs/a")
    assert foreign_run(folder) > 50
    for name, content in LOGS.items():
        Path(name).write_bytes(content().encode("utf-8", "surrogateescape"))
    Path("klarm.yaml").write_text("channels: {team: {type: webhook, url: 'http://127.0.0.1:9/x'}}")
    for arguments in every_call():
        called(*arguments)
    for name in LOGS:
        called("replay", name)
        called("replay", name, "--format", "json", "--alerts")
        called("follow", name, "--once")
    shown = capfd.readouterr()
    assert r"\x1b]" in shown.out  # in a narrow table it is folded
    assert r"\x1b]0;pwned" in shown.err
    assert raw(shown.out + shown.err) == []


def test_no_argument_and_no_mistake_in_the_settings_is_repeated_raw(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every place of a command, of klarm.yaml and of the environment."""
    with klarm.init("a", console=False) as monitor:
        monitor.log({"kl": math.nan})
    called(HOSTILE)
    for name, *arguments in every_call():
        called(name, f"--{HOSTILE}")
        for at in range(len(arguments) + 1):
            called(name, *arguments[:at], HOSTILE, *arguments[at + 1 :])
        for option in ("--run", "--by", "--config", "--set", "--for"):
            called(name, *arguments, option, HOSTILE)
    safe = HOSTILE.replace("\udcff", "")
    for content in (
        {safe: 1},
        {"kl_explosion": {safe: 1}},
        {"kl_explosion": {"warmup_steps": safe}},
        {"kl_explosion": safe},
        {"metrics": {safe: "x"}},
        {"metrics": {"kl": {safe: "x"}}},
        {"metrics": {"kl": safe}},
        {"framework": safe},
        {"deliver": safe},
        {"run": safe},
        {"dir": safe},
        {"channels": {safe: {"type": "slack"}}},
        {"channels": {"x": {"type": safe}}},
        {"channels": {"slack": {safe: 1}}},
        {"channels": {"slack": {"signals": [safe]}}},
        {"channels": {"slack": {"webhook_url": {"env": safe}}}},
        {"channels": {"slack": {"webhook_url": {"file": safe}}}},
    ):
        Path("klarm.yaml").write_text(json.dumps(content))
        called("incidents", "a")
        called("test-alert")
    Path("klarm.yaml").write_text(f"x: {HOSTILE!r}\n\t{safe[0]}")
    called("incidents")
    Path("klarm.yaml").unlink()
    for variable in ("DIR", "RUN", "FRAMEWORK", "CONFIG", "KL_EXPLOSION__X", "CHANNELS__X__TYPE"):
        monkeypatch.setitem(os.environ, f"KLARM_{variable}", HOSTILE)
        called("incidents")
        called("follow", "log.jsonl", "--once")
        monkeypatch.delitem(os.environ, f"KLARM_{variable}")
    shown = capfd.readouterr()
    assert r"\x1b]0;pwned" in shown.err
    assert raw(shown.out + shown.err) == []
