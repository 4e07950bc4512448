"""Plugins: detectors and channels of other packages, found by their entry points.

Nothing is read or imported before `klarm.init` or a command, and nothing in `klarm.log`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from klarm.settings import lacks_decorator

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DETECTORS, CHANNELS = "klarm.detectors", "klarm.channels"

_Kind = TypeVar("_Kind")
_MAX_REASON = 300


class PluginError(Exception):
    """A plugin cannot be used. The message names the package and the reason."""


class Plugin(NamedTuple):
    """An entry point: the name of a detector or the type of a channel, and its class."""

    name: str
    entry_points: tuple[EntryPoint, ...]  # several if packages use the same name, which is an error

    @property
    def package(self) -> str:
        """The distribution that has the plugin."""
        names = [point.dist.name if point.dist else "?" for point in self.entry_points]
        return " and ".join(dict.fromkeys(names))

    def load(self, base: type[_Kind], problem: Callable[[type[_Kind]], str]) -> type[_Kind]:
        """Import the class, or raise PluginError. `problem` returns what is wrong with a class."""
        if len(self.entry_points) > 1:
            places = ", ".join(point.value for point in self.entry_points)
            raise PluginError(f"{self.package} cannot be used: {places} have the same name")
        try:
            kind = self.entry_points[0].load()
            wrong = not_a_kind_of(base, kind) or problem(kind)
        except Exception as error:  # noqa: BLE001  # foreign code may fail in any way of its own
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            place = f"{self.package} ({self.entry_points[0].value})"
            raise PluginError(f"{place} cannot be used: {wrong[:_MAX_REASON]}")
        found: type[_Kind] = kind
        return found


@cache
def plugins(group: str) -> dict[str, Plugin]:
    """Return the plugins of installed packages in a group of entry points, by name."""
    from importlib.metadata import entry_points

    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, []).append(point)
    return {name: Plugin(name, tuple(points)) for name, points in found.items()}


def not_a_kind_of(base: type, kind: object) -> str:
    """Return why something is not a class that klarm can instantiate; empty if it is one."""
    if not isinstance(kind, type) or not issubclass(kind, base):
        return f"{getattr(kind, '__name__', kind)!s:.80} is not a subclass of klarm.{base.__name__}"
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
        return f"{kind.__name__} does not implement {missing}"
    if lacks_decorator(kind):
        return f"{kind.__name__} has settings and lacks @dataclass(kw_only=True, eq=False)"
    return ""
