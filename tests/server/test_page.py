"""The page: served from memory, or a word on how to build it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from serving_runs import served, write_steps

from klarm.server import page


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page as Vite builds it."""
    folder = tmp_path / "page"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>klarm</title>")
    (folder / "assets" / "app-1a2b.js").write_text("/* the page */" * 200)
    monkeypatch.setattr(page.Page.__init__, "__defaults__", (folder,))
    return folder


def test_the_page_answers_every_address_of_its_own(built: Path) -> None:
    """Files as they are, the page for all else, and nothing of it is cached for good."""
    with served() as client:
        for path in ("/", "/runs/grpo-7b", "/compare?runs=a,b"):
            answer = client.ask(path)
            assert answer.body.startswith(b"<!doctype html>")
            assert answer.headers["Cache-Control"] == "no-cache"
        again = client.ask("/", If_None_Match=client.ask("/").headers["Etag"])
        assert again.status == 304
        script = client.ask("/assets/app-1a2b.js", Accept_Encoding="gzip")
        assert script.headers["Content-Type"].startswith("text/javascript")
        assert "immutable" in script.headers["Cache-Control"]
        assert gzip.decompress(script.body) == (built / "assets/app-1a2b.js").read_bytes()
        assert client.ask("/", "POST", {}).status == 405


def test_the_page_needs_no_login_and_tells_nothing(built: Path) -> None:
    """A link from a message leads to it; its requests are turned away until one logs in."""
    write_steps("secret-run", {1: {"kl": 0.1}})
    with served(token="a-token-that-nobody-guesses") as client:
        client.headers.clear()
        assert client.ask("/runs/secret-run").status == 200
        assert client.ask("/api/v1/runs/secret-run").status == 401


def test_without_the_page_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In plain HTML, whether klarm runs from a checkout or was installed by pip."""
    monkeypatch.setattr(page.Page.__init__, "__defaults__", (tmp_path / "nothing",))
    with served() as client:
        answer = client.ask("/")
        assert answer.status == 200
        assert b"make page" in answer.body
        assert b"pip install" in answer.body
        assert client.server.page.missing.startswith("The page is not built.")  # type: ignore[attr-defined]
