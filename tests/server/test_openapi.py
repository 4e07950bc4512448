"""The description of the API is true: openapi.py, routes.py and parameters.py.

schemathesis makes requests from the description, right ones and wrong ones, and asks the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from serving_runs import Client, record, served

from klarm.server.openapi import description
from klarm.server.parameters import Arguments, Parameter
from klarm.server.problems import ApiError
from klarm.server.routes import PREFIX, ROUTES

if TYPE_CHECKING:
    import schemathesis

DOCS = Path(__file__).parents[2] / "docs" / "api.md"
# A stream has no end to wait for.
STREAM = f"{PREFIX}/events"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Serve one run to all requests that are made up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("described"))
        record("exploding")
        with served() as client:
            yield client


@pytest.mark.parametrize("examples", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_answers_are_as_described(examples: int, client: Client) -> None:
    """Whatever is asked: no failure of the server, and every answer fits its schema."""
    import schemathesis  # here, because it takes seconds
    from schemathesis.generation import GenerationMode

    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.checks.status_code_conformance,
        schemathesis.checks.content_type_conformance,
        schemathesis.checks.response_schema_conformance,
    ]
    schema = schemathesis.openapi.from_dict(description()).exclude(path=STREAM)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) > 20

    def check(case: schemathesis.Case) -> None:
        if len(str(case.path_parameters.get("run", ""))) % 2:  # there would hardly be a run else
            case.path_parameters["run"] = "exploding"
        answer = case.call(base_url=f"http://127.0.0.1:{client.port}")
        if answer.status_code != 501:  # pyarrow need not be there
            case.validate_response(answer, checks=checks)

    quick = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    for operation in operations:
        right, wrong = (
            operation.as_strategy(generation_mode=mode)
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        )
        quick(given(case=right | wrong)(check))()


def test_every_route_is_documented() -> None:
    """In docs/api.md, by its path, and every parameter by its name."""
    page = DOCS.read_text()
    for path, methods in description()["paths"].items():
        assert path in page or re.sub(r"\{signal\}", "{signal}", path) in page, path
        for described in methods.values():
            for parameter in described["parameters"]:
                assert f"{{{parameter['name']}}}" in page or f"`{parameter['name']}`" in page, (
                    f"{path} {parameter['name']}"
                )


def test_every_field_of_an_answer_is_documented() -> None:
    """Somewhere in docs/api.md, in quotes."""
    page = DOCS.read_text()
    for name, schema in description()["components"]["schemas"].items():
        for field in schema.get("properties", {}):
            assert f'"{field}"' in page or f"`{field}`" in page, f"{name}.{field}"


def test_parameters_in_the_path_are_declared() -> None:
    """Neither one too few nor one too many."""
    for route in ROUTES:
        in_path = set(re.findall(r"\{(\w+)\}", route.path))
        assert in_path == {known.name for known in route.parameters if known.in_path}


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        (Parameter("a", "", "integer"), "1.5"),
        (Parameter("a", "", "integer"), "9" * 30),
        (Parameter("a", "", "number"), "nan"),
        (Parameter("a", "", "number"), "1e400"),
        (Parameter("a", "", "number"), "\u0661"),
        (Parameter("a", "", "flag"), "yes"),
        (Parameter("a", "", "names", max_names=1), "a,b"),
        (Parameter("a", "", choices=("b",)), "c"),
        (Parameter("a", ""), "x" * 20_000),
        (Parameter("a", ""), "\0"),
    ],
)
def test_a_value_that_cannot_be_is_refused(parameter: Parameter, text: str) -> None:
    """And the parameter is named."""
    with pytest.raises(ApiError) as problem:
        parameter.read(text)
    assert problem.value.parameter == "a"
    with pytest.raises(ApiError, match="is unknown"):
        Arguments.read([parameter], {}, {"b": text})
