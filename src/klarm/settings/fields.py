"""A setting: its default, its meaning and its possible values, declared in one place.

Detectors and the configuration are dataclasses whose fields are declared with `setting`.
Validation, `klarm init`, `klarm detectors` and the test that everything is documented all use the
same declaration.
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_Made = TypeVar("_Made", bound="Configurable")


class ConfigError(ValueError):
    """A setting is invalid. This is raised before training starts, never during training."""

    @classmethod
    def of(cls, must: str, shown: str, hint: str = "") -> ConfigError:
        """Return the error that a value is not what it must be."""
        error = cls(f"{must}, got {shown}{hint}")
        error.shown, error.without_value = shown, f"{must}{hint}"
        return error

    shown = ""  # the invalid value in the text
    without_value = ""  # the text without it: it may be a misplaced secret


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting of a detector or of klarm itself."""

    name: str
    default: Any
    meaning: str
    above: float | None = None
    at_least: float | None = None
    choices: tuple[str, ...] = ()
    private: bool = False  # it may contain a secret, so it is not recorded

    @property
    def kind(self) -> type:
        """The type of the value, which is that of the default."""
        return type(self.default)

    def check(self, value: object) -> object:
        """Return the value converted to its type, or raise ConfigError that says what it must be.

        >>> Setting("sigma_multiplier", 3.0, "", above=0).check(5)
        5.0
        """
        read_by_type = getattr(self.kind, "as_setting", None)
        if read_by_type is not None:
            return read_by_type(value)
        if not isinstance(value, _ACCEPTED[self.kind]) or (
            isinstance(value, bool) and self.kind is not bool
        ):
            quotes = " (put it in quotes)" if self.kind is str else ""
            raise ConfigError.of(f"must be {_ARTICLES[self.kind]}{quotes}", as_given(value))
        if self.kind in (int, float):
            self._check_range(value)  # type: ignore[arg-type]
        if self.choices and value not in self.choices:
            listed = " or ".join(repr(choice) for choice in self.choices)
            hint = did_you_mean(value, self.choices)
            raise ConfigError.of(f"must be {listed}", as_given(value), hint)
        return self.kind(value)

    def read(self, value: object) -> object:
        """Return a value from a file or from the environment, converted and checked.

        Text is accepted for numbers, too: YAML reads `1e-4` as a string.

        >>> Setting("min_std", 1e-4, "").read("1e-3")
        0.001
        """
        if isinstance(value, str):
            if self.kind is bool and value.lower() in _TRUE + _FALSE:
                return value.lower() in _TRUE
            if self.kind in (int, float):
                try:
                    value = self.kind(value)
                except ValueError:
                    must = f"must be {_ARTICLES[self.kind]}"
                    raise ConfigError.of(must, as_given(value)) from None
        return self.check(value)

    def _check_range(self, value: float) -> None:
        if not abs(value) <= _MAX_NUMBER:
            raise ConfigError.of("must be a finite number", f"{value!r:.80}")
        if self.above is not None and not value > self.above:
            raise ConfigError.of(f"must be greater than {self.above:g}", repr(value))
        if self.at_least is not None and not value >= self.at_least:
            raise ConfigError.of(f"must be at least {self.at_least:g}", repr(value))


class Names(tuple[str, ...]):
    """A setting that is a list of names, or a single name."""

    @classmethod
    def as_setting(cls, value: object) -> Names:
        """Return the names from a list, or from text separated by commas."""
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",")]
        if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
            raise ConfigError.of("must be text or a list of text", as_given(value))
        return cls(name for name in value if name)


_MAX_NUMBER = 1e300
_MAX_SHOWN = 24  # characters of an invalid value
# The types that are accepted for the type of a setting, including the numbers of numpy.
_ACCEPTED: dict[type, type] = {
    bool: bool,
    int: numbers.Integral,
    float: numbers.Real,
    str: str,
}
_ARTICLES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}


def as_given(value: object) -> str:
    """Describe an invalid value for a message; long text is not shown, as it may be a secret.

    >>> as_given("frozn"), as_given(["a"]), as_given("https://hooks.example.org/x")
    ("'frozn'", 'a list', 'text that is not shown')
    """
    if isinstance(value, str):
        fits = len(value) <= _MAX_SHOWN and "://" not in value
        return repr(value) if fits else "text that is not shown"
    if isinstance(value, list | tuple | set):
        return "a list"
    return "a section" if isinstance(value, Mapping) else f"{value!r:.80}"


def setting(
    default: Any,
    meaning: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    choices: tuple[str, ...] = (),
    private: bool = False,
) -> Any:
    """Declare a dataclass field that is a setting."""
    limits = {"meaning": meaning, "above": above, "at_least": at_least, "choices": choices}
    limits["private"] = private
    return dataclasses.field(default=default, metadata={"setting": limits})


def settings_of(owner: type) -> dict[str, Setting]:
    """Return the settings that a dataclass declares, by name and in order."""
    return {
        field.name: Setting(field.name, field.default, **field.metadata["setting"])
        for field in dataclasses.fields(owner)
        if "setting" in field.metadata
    }


class Configurable:
    """The base of detectors and channels: knows which settings its constructor was given.

    A setting that a script gives wins over klarm.yaml, even if its value is the default.
    """

    _explicit: frozenset[str] = frozenset()

    def __new__(cls: type[_Made], *_: object, **given: object) -> _Made:
        """Make an object and note which settings are given."""
        made = super().__new__(cls)
        made._explicit = frozenset(given)
        return made


def explicit_settings(made: Configurable) -> dict[str, object]:
    """Return the settings that the constructor was given, or that differ from their defaults."""
    return {
        name: getattr(made, name)
        for name, declared in settings_of(type(made)).items()
        if name in made._explicit or getattr(made, name) != declared.default
    }


def keep_explicit(made: Configurable, of: Configurable) -> None:
    """Remember in a copy which settings its original was given: copying passes every setting."""
    made._explicit = of._explicit


def missing_attribute(kind: type, required: Mapping[str, str]) -> str:
    """Return which attribute a class lacks, and what to add; empty if it has all of them."""
    for name, example in required.items():
        if not hasattr(kind, name):
            return f"{kind.__name__} has no {name}; add one to the class, as in {example}"
    return ""


def lacks_decorator(owner: type) -> bool:
    """Return whether a class declares settings but is not a dataclass, so they have no effect."""
    return any(
        isinstance(value, dataclasses.Field) and "setting" in value.metadata
        for base in owner.__mro__
        if "__dataclass_fields__" not in vars(base)
        for value in vars(base).values()
    )


def check_settings(instance: Any, where: str) -> None:
    """Convert every setting of a new instance to its type, or raise ConfigError naming it."""
    for name, declared in settings_of(type(instance)).items():
        try:
            setattr(instance, name, declared.check(getattr(instance, name)))
        except ConfigError as error:
            raise ConfigError(f"{where}.{name} {error}") from None


def did_you_mean(wrong: object, right: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `; did you mean X?` if a known name is similar, else an empty string."""
    import difflib

    known = list(right)
    near = difflib.get_close_matches(str(wrong), known, n=1, cutoff=cutoff)
    near = near or [name for name in known if len(str(wrong)) > 2 and str(wrong) in name][:1]
    return f"; did you mean {near[0]}?" if near else ""
