"""What may be asked, and what is refused: requests.py and routes.py, as docs/api.md has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints
from urllib.parse import quote, urlencode

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving_runs import Client, record, served

from cases import over
from klarm.server.events import ChangesToFollow
from klarm.server.export import File
from klarm.server.login import Login, Session
from klarm.server.problems import ApiError
from klarm.server.requests import Query, read_query
from klarm.server.routes import PREFIX, ROUTES, Route

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
PAGE = DOCS.read_text()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Serve one run to all requests that are made up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("asked"))
        record("exploding")
        with served() as client:
            yield client


def structs_in(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs that a type consists of."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from structs_in(field.type)
    for part in get_args(kind):
        yield from structs_in(part)


def answer_of(route: Route) -> Any:
    """Return the type of a route's answer."""
    return get_type_hints(route.handler)["return"]


@over("route", ROUTES)
def test_every_route_is_documented(route: Route) -> None:
    """By its path, and every parameter by its name."""
    assert f"{route.method} {PREFIX}{route.path}`" in PAGE
    for field in msgspec.structs.fields(route.query or Query):
        assert f"`{field.encode_name}`" in PAGE, field.encode_name


def test_every_field_is_documented() -> None:
    """Those of answers and of bodies: somewhere on the page, in quotes."""
    kinds = [answer for route in ROUTES if (answer := answer_of(route)) is not File]
    kinds += [route.body for route in ROUTES if route.body] + [ChangesToFollow, Login, Session]
    assert all(issubclass(kind, msgspec.Struct) for kind in kinds)
    for kind in {struct for known in kinds for struct in structs_in(known)}:
        for field in msgspec.structs.fields(kind):
            name = field.encode_name
            assert f'"{name}"' in PAGE or f"`{name}`" in PAGE, f"{kind.__name__}.{name}"


SOME = ["exploding", "kl", "kl,reward", "critical", "csv", "time", "true", ",", "%ff", "[", "null"]
NUMBERS = ["0", "-7", "3.5", "1e400", "nan"]
TEXTS = st.sampled_from([*SOME, *NUMBERS, "\n", "\0", "x" * 20_000]) | st.text()
VALUES = TEXTS | st.none() | st.booleans() | st.integers() | st.dictionaries(TEXTS, st.integers())


@pytest.mark.parametrize("examples", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_whatever_is_asked_is_answered(examples: int, client: Client) -> None:
    """With an answer of the documented form, or a reason; the server never fails."""

    incident = client.get("/runs/exploding/incidents")["incidents"][0]["id"]
    values = st.sampled_from(["exploding", incident]) | TEXTS

    def names_of(kind: type[msgspec.Struct] | None) -> st.SearchStrategy[str]:
        fields = msgspec.structs.fields(kind) if kind else ()
        return st.sampled_from([field.encode_name for field in fields]) if fields else st.nothing()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        route = data.draw(st.sampled_from(ROUTES))
        path = re.sub(r"{\w+}", lambda _: quote(data.draw(values), safe=""), route.path)
        query = data.draw(st.dictionaries(names_of(route.query) | st.just("more"), TEXTS))
        body = data.draw(st.dictionaries(names_of(route.body), VALUES) | st.binary())
        target = f"{PREFIX}{path}?{urlencode(query, errors='replace')}"
        answer = client.ask(target[:60_000], route.method, body if route.body else None)
        # 307 is to the path without its last slash, if nothing else matches.
        assert answer.status in (200, 307, 400, 404, 405, 409, 501), answer.body
        if answer.status >= 400:
            assert answer.json["error"]["message"]
        elif answer_of(route) is not File and "json" in answer.headers.get("Content-Type", ""):
            msgspec.json.decode(answer.body, type=answer_of(route))

    ask()


def query_of(path: str) -> type[Query]:
    (route,) = (route for route in ROUTES if (route.method, route.path) == ("GET", path))
    assert route.query
    return route.query


@pytest.mark.parametrize(
    ("path", "name", "text", "said"),
    [
        ("/runs/{run}/series", "width", "1.5", "a whole number between 1 and 10000, got '1.5'"),
        ("/runs/{run}/series", "width", "9" * 30, "a whole number between 1 and 10000, got '999"),
        ("/runs/{run}/series", "from", "nan", "a number, got 'nan'"),
        ("/runs/{run}/series", "from", "1e400", "a number, got"),
        ("/runs/{run}/series", "to", "1e300", "a number, got"),
        ("/runs/{run}/series", "to", "null", "a number, got"),
        ("/runs/{run}/series", "to", "\u0661", "a number, got"),
        ("/runs/{run}/series", "axis", "space", "step or time, got 'space'"),
        ("/runs/{run}/series", "metrics", ",".join(map(str, range(51))), "at most 50 names"),
        ("/runs/{run}/alerts", "severity", "mild", "critical or warning, got 'mild'"),
        ("/runs/{run}/alerts", "limit", "0", "between 1 and 10000, got '0'"),
        ("/runs/{run}/alerts", "detector", "x" * 20_000, "too long"),
        ("/runs/{run}/alerts", "detector", "\0", "NUL"),
        ("/runs/{run}/alerts", "detectr", "kl", "parameters are detector, from, limit, severity"),
        ("/runs/{run}/alerts", "first", "1", "is unknown"),
        ("/runs", "sparklines", "yes", "true or false, got 'yes'"),
        ("/compare", "runs", "a", "2 to 20 names, got 'a'"),
        ("/compare", "runs", "", "2 to 20 names, got ''"),
    ],
)
def test_a_value_that_cannot_be_is_refused(path: str, name: str, text: str, said: str) -> None:
    """Naming the parameter, the value and what is allowed."""
    with pytest.raises(ApiError, match=re.escape(said)) as problem:
        read_query(query_of(path), {name: text})
    assert (problem.value.status, problem.value.parameter) == (400, name)


def test_names_are_encoded_one_by_one() -> None:
    """So that a name may hold a comma; each counts once, and an empty parameter is left out."""
    of_series = query_of("/runs/{run}/series")
    asked = read_query(of_series, {"metrics": "a%2Cb,kl,,kl", "from": "", "axis": "time"})
    assert asked == of_series(metrics=("a,b", "kl"), axis="time")  # type: ignore[call-arg]
