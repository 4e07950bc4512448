"""One test over many cases: it goes through all of them, and fails once with all that is wrong."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]


def over(names: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for every case: in place of `parametrize`, where the cases are of one property.

    Fixtures are made once for all of them.
    """

    def decorate(test: Test) -> Test:
        arguments, all_cases = names.replace(",", " ").split(), list(cases)
        declared = inspect.signature(test)
        others = [value for name, value in declared.parameters.items() if name not in arguments]
        signature = declared.replace(parameters=others)

        @functools.wraps(test)
        def loop(*positional: Any, **named: Any) -> None:
            given, errors = signature.bind(*positional, **named).arguments, []
            for case in all_cases:
                values = [case] if len(arguments) == 1 else case
                try:
                    test(**given, **dict(zip(arguments, values, strict=True)))
                except Exception as error:  # noqa: BLE001
                    errors.append((", ".join(map(_shown, values)), error))
            if errors:
                wrong = [f"{case}: {error}" for case, error in errors]
                summary = f"{len(wrong)} of {len(all_cases)} cases are wrong:"
                raise AssertionError("\n".join([summary, *wrong])) from errors[0][1]

        loop.__signature__ = signature  # type: ignore[attr-defined]
        return loop

    return decorate


def _shown(value: Any) -> str:
    return str(getattr(value, "name", None) or getattr(value, "__name__", value))[:80]
