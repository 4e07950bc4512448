"""Who may ask: guard.py, access.py, login.py, requests.py, folders.py and hostile names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving_runs import RUNS, Client, record, served, write_steps

from klarm.journal import FileJournal, Started
from klarm.server.access import Access, session_in
from klarm.store import id_of, runs_below

TOKEN = "a-token-that-nobody-guesses"
FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def client() -> Iterator[Client]:
    """Serve a run to those who know a token; the client does not."""
    record("exploding", rows=200)
    with served(token=TOKEN) as client:
        client.headers.clear()
        yield client


def test_without_the_token_nothing_is_shown(client: Client) -> None:
    """But that the server is there, and how to ask it."""
    for path in ("/runs", "/runs/exploding", "/status", "/events", "/settings", "/nothing"):
        answer = client.ask(f"/api/v1{path}")
        assert (answer.status, answer.json["error"]["code"]) == (401, "login_needed"), path
        assert "Www-Authenticate" in answer.headers
    assert client.post("/runs/exploding/what-if").status == 401
    for path in ("/health", "/session"):
        assert client.ask(f"/api/v1{path}").status == 200


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", f"bearer  {TOKEN}"])
def test_the_token_may_be_a_header(client: Client, header: str) -> None:
    """For programs."""
    assert client.ask("/api/v1/runs", Authorization=header).status == 200


@pytest.mark.parametrize("header", ["Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_a_wrong_header_is_none(client: Client, header: str) -> None:
    """However near."""
    assert client.ask("/api/v1/runs", Authorization=header).status == 401


def cookie_of(client: Client, path: str, body: object, **headers: str) -> str:
    answer = client.ask(path, "POST", body, **headers)
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    return cookie.partition(";")[0]


def test_a_login_form_opens_a_session(client: Client) -> None:
    """And leads back to where one was; only within this server."""
    form = client.ask("/login?next=/runs/exploding%3Fa%3D1%26b%3D2")
    assert b'action="/login?next=/runs/exploding%3Fa%3D1%26b%3D2"' in form.body
    address = "/login?next=/runs/exploding%3Fa%3D1%26b%3D2"
    body = f"token={TOKEN}".encode()
    answer = client.ask(address, "POST", body, Content_Type=FORM)
    assert (answer.status, answer.headers["Location"]) == (303, "/runs/exploding?a=1&b=2")
    cookie = cookie_of(client, "/login", body, Content_Type=FORM)
    assert client.ask("/api/v1/runs", Cookie=cookie).status == 200
    assert client.ask("/api/v1/session", Cookie=cookie).json["logged_in"]
    evil = client.ask("/login?next=//evil.example/", "POST", body, Content_Type=FORM)
    assert evil.headers["Location"] == "/"
    wrong = client.ask("/login", "POST", b"token=wrong", Content_Type=FORM)
    assert wrong.status == 401
    assert "Set-Cookie" not in wrong.headers
    assert b"<script" not in client.ask("/login?next=/%22%3E%3Cscript%3E").body


def test_a_session_can_be_opened_and_closed_by_a_page(client: Client) -> None:
    """A closed one is worth nothing."""
    cookie = cookie_of(client, "/api/v1/session", {"token": TOKEN})
    assert client.ask("/api/v1/runs", Cookie=cookie).status == 200
    assert client.ask("/api/v1/session", "DELETE", Cookie=cookie).status == 200
    assert client.ask("/api/v1/runs", Cookie=cookie).status == 401
    assert client.post("/session", {"token": "wrong"}).status == 401
    assert client.ask("/api/v1/runs", Cookie='klarm_session="\\').status == 401
    assert session_in("a=b; klarm_session=x") == "x"


def test_a_session_ends_by_itself() -> None:
    """After a week; and there is a limit to how many there are."""
    now = [0.0]
    access = Access("0.0.0.0", TOKEN, clock=lambda: now[0])
    session = access.open_session()
    assert access.is_allowed("", f"klarm_session={session}")
    now[0] = 8 * 24 * 3600
    assert not access.is_allowed("", f"klarm_session={session}")
    sessions = [access.open_session() for _ in range(1001)]
    assert not access.is_allowed("", f"klarm_session={sessions[0]}")
    assert access.is_allowed("", f"klarm_session={sessions[-1]}")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8421", "127.0.0.1.evil.example", ""]
)
def test_a_foreign_host_is_turned_away(client: Client, host: str) -> None:
    """A name that was rebound to this machine, even with the right token."""
    answer = client.ask("/api/v1/runs", Host=host, Authorization=f"Bearer {TOKEN}")
    assert (answer.status, answer.json["error"]["code"]) == (403, "forbidden")
    assert client.ask("/", Host=host).status == 403


def test_hosts_that_are_ours() -> None:
    """Loopback by its names; any address once others can reach it; what was allowed."""
    loopback = Access("127.0.0.1", None, ["runs.example.org"])
    for host in ("localhost:1", "127.0.0.1:8421", "[::1]:8421", "RUNS.example.org", "localhost."):
        assert loopback.is_our_host(host), host
    for host in ("10.0.0.1", "example.org", "[", "a@b:c@d"):
        assert not loopback.is_our_host(host), host
    assert Access("0.0.0.0", TOKEN).is_our_host("10.0.0.1:8421")
    assert not Access("0.0.0.0", TOKEN).is_our_host("evil.example")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_a_foreign_page_changes_nothing(headers: dict[str, str]) -> None:
    """Not even where no token is needed."""
    record("exploding", rows=200)
    with served() as client:
        id_ = client.get("/runs/exploding/incidents")["incidents"][0]["id"]
        path = f"/api/v1/runs/exploding/incidents/{id_}/ack"
        assert client.ask(path, "POST", {}, **headers).status == 403
        assert client.ask(path, "POST", b"{}", Content_Type="text/plain").status == 400
        assert not (RUNS / "exploding/commands.jsonl").exists()
        own = f"http://127.0.0.1:{client.port}"
        assert client.ask(path, "POST", {}, Origin=own, Sec_Fetch_Site="same-origin").status == 200


def test_every_answer_has_the_headers_of_a_careful_server(client: Client) -> None:
    """Pages, answers and refusals alike."""
    for path in ("/", "/api/v1/runs", "/api/v1/health", "/login"):
        headers = client.ask(path).headers
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert "Server" not in headers
        assert "Access-Control-Allow-Origin" not in headers


def test_a_large_body_is_refused(client: Client) -> None:
    """Before it is read to its end."""
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    answer = client.ask("/api/v1/runs/exploding/what-if", "POST", b" " * 300_000)
    assert answer.status == 413


HOSTILE = "<script>alert(1)</script>\n../../etc"


def test_a_hostile_run_stays_text() -> None:
    """Its name, its metrics, its paths: given as they are, as JSON, and never taken for a path."""
    journal = FileJournal(RUNS / "plain", print)
    journal.record(Started(HOSTILE, 1.0, HOSTILE, HOSTILE, {HOSTILE: HOSTILE}))
    journal.step(1, 1.0, {HOSTILE: 0.5, "a,b%2C": 0.7})
    journal.close(5.0)
    folder = os.fsencode(RUNS) + b"/n\xff<b>"
    Path(os.fsdecode(folder)).mkdir()
    source = (RUNS / "plain" / "journal.jsonl").read_bytes()
    (Path(os.fsdecode(folder)) / "journal.jsonl").write_bytes(source)
    with served() as client:
        runs = {run["id"]: run for run in client.get("/runs")["runs"]}
        assert runs["plain"]["name"] == HOSTILE
        (other,) = set(runs) - {"plain"}
        assert other.startswith("~")
        assert runs[other]["folder"] == "n\ufffd<b>"
        assert client.get(f"/runs/{other}")["steps"] == 1
        answer = client.ask("/api/v1/runs")
        assert answer.headers["Content-Type"] == "application/json"
        found = client.get("/runs/plain/series?metrics=a%252Cb%25252C")["series"]
        assert found["a,b%2C"]["y"] == [0.7]
        assert client.ask(f"/api/v1/runs/{other}/export").status == 200


@pytest.mark.parametrize(
    "id_", ["..", "../..", "%2e%2e%2f%2e%2e%2fetc", "..%5c..", "%00", "a%2fb", "plain%00", "%ff"]
)
def test_no_path_escapes_the_folder(id_: str) -> None:
    """An id is looked up, never opened."""
    write_steps("plain", {1: {"kl": 0.1}})
    write_steps("../outside", {1: {"kl": 0.1}})
    with served() as client:
        for end in ("", "/series", "/export", "/incidents/x"):
            answer = client.ask(f"/api/v1/runs/{id_}{end}")
            assert answer.status in (400, 404), answer.body
        for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../../app.py"):
            assert b"root:" not in client.ask(path).body
            assert b"import" not in client.ask(path).body


def test_links_out_of_the_folder_are_not_followed() -> None:
    """Neither a folder nor a journal that is one."""
    write_steps("../outside", {1: {"kl": 0.1}})
    RUNS.mkdir(exist_ok=True)
    (RUNS / "link").symlink_to(Path("outside").absolute())
    (RUNS / "other").mkdir()
    (RUNS / "other" / "journal.jsonl").symlink_to(Path("outside/journal.jsonl").absolute())
    (RUNS / ".hidden").mkdir()
    (RUNS / ".hidden" / "journal.jsonl").write_bytes(b"")
    write_steps("team/run", {1: {"kl": 0.1}})
    assert list(runs_below(os.fsencode(RUNS))) == [b"team/run"]
    assert list(runs_below(os.fsencode(RUNS / "team" / "run"))) == [b""]
    assert id_of("team/run").startswith("~")


def test_the_folder_of_one_run_can_be_served() -> None:
    """Its index lies in it."""
    write_steps("a", {1: {"kl": 0.1}})
    with served(RUNS / "a") as client:
        (run,) = client.get("/runs")["runs"]
        assert (run["name"], run["folder"]) == ("a", "a")
        assert client.get(f"/runs/{run['id']}")["steps"] == 1
