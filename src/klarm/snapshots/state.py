"""What counts as state: which attributes of an object go into a snapshot, and of which classes.

klarm's own classes need no state methods: their attributes are found here. Functions and settings
are not state, because construction creates them.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from functools import cache
from types import BuiltinMethodType, FunctionType, ModuleType
from typing import Final

import msgspec

from klarm.settings import settings_of

PLAIN: Final = frozenset((float, int, str, bool, type(None)))
# Objects of these modules may be in a snapshot. They are created without calling `__init__`.
_OURS: Final = ("klarm.detectors", "klarm.stats", "klarm.incidents", "klarm.monitor", "klarm.types")


class UnfitError(Exception):
    """A state cannot be captured, or does not fit the objects it is restored into."""


def state_names(value: object) -> list[str]:
    """Return the names of an object's attributes, without the settings of a detector."""
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    kind = type(value)
    declared, others = declared_names(kind)
    names = [name for name in declared if hasattr(value, name)]
    return names + [name for name in others if hasattr(value, name) and not hasattr(kind, name)]


def _find_declared(kind: type) -> tuple[list[str], list[str]]:
    """Return the slots and fields of a class, and other names that its objects may have.

    Those other names are taken from the code of its methods. Reading `__dict__` instead would make
    CPython give up the compact storage of attributes, and every later step of the run would take
    half as long again.
    """
    slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
    declared = [name for name in slots if name not in ("__weakref__", "__dict__")]
    settings: Mapping[str, object] = {}
    if dataclasses.is_dataclass(kind):
        settings = settings_of(kind)
        fields = [field.name for field in dataclasses.fields(kind) if field.name not in settings]
        declared = list(dict.fromkeys([*declared, *fields]))
    functions = [
        getattr(held, "fset", None) or held for base in kind.__mro__ for held in vars(base).values()
    ]
    codes = [held.__code__ for held in functions if isinstance(held, FunctionType)]
    names = {name for code in codes for name in code.co_names}
    return declared, sorted(names - settings.keys() - set(declared))


def is_made_by_construction(value: object) -> bool:
    """Return whether a value is a function or settings, which construction creates."""
    if type(value) in PLAIN:
        return False
    if isinstance(value, BuiltinMethodType):  # a function of a module, such as math.log
        return isinstance(value.__self__, ModuleType)
    return isinstance(value, FunctionType | type) or _never_changes(type(value))


def _find_unchanging(kind: type) -> bool:
    """Return whether the objects of a class never change: frozen ones, and settings."""
    if not dataclasses.is_dataclass(kind):
        return False
    frozen: bool = kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return frozen or bool(settings_of(kind))


def _find_ours(kind: type) -> bool:
    """Return whether objects of a class may be in a snapshot."""
    module = kind.__module__
    return any(module == ours or module.startswith(f"{ours}.") for ours in _OURS)


def class_name(kind: type) -> str:
    """Return the module and the qualified name of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def class_of(name: str) -> type:
    """Return a class of klarm by its name; it must have been imported already."""
    module, _, path = name.partition(":")
    found = getattr(sys.modules.get(module), path, None)
    if not isinstance(found, type) or class_name(found) != name or not is_ours(found):
        raise UnfitError(f"{name} is not known")
    return found


# These are called for every object, so their results are cached.
declared_names: Callable[[type], tuple[list[str], list[str]]] = cache(_find_declared)
is_ours: Callable[[type], bool] = cache(_find_ours)
_never_changes: Callable[[type], bool] = cache(_find_unchanging)
