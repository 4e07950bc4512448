"""Converts the state of detectors and incidents to plain data for a snapshot, and back.

An object that construction creates, such as a detector, is filled in place, so that bound methods
keep referring to the same objects. Objects that are referenced several times are stored once and
stay shared. What counts as state is decided in state.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import BuiltinMethodType, MethodType
from typing import Any, Final

import msgspec

from klarm.snapshots.state import (
    PLAIN,
    UnfitError,
    class_name,
    class_of,
    declared_names,
    is_made_by_construction,
    is_ours,
    state_names,
)

# Every value that is not plain is stored as a list that begins with one of these tags.
_LIST, _TUPLE, _DEQUE, _SET, _FROZENSET, _DICT, _ROW, _OBJECT, _PART, _AGAIN, _METHOD = range(11)
_TEXT: Final = frozenset((str,))
_TUPLES: Final = frozenset((tuple,))
_ABSENT: Final = object()


class Capture:
    """Converts the state of objects to plain data: lists, numbers and text that msgpack can hold.

    `parts` maps names to the objects that construction creates.
    """

    def __init__(self, parts: Mapping[str, object]) -> None:
        self._names = {id(part): name for name, part in parts.items()}
        self._numbers: dict[int, int] = {}  # the number of each object by id, in order of visit
        self._kept: list[object] = []  # keeps the objects alive, so that no id is used twice
        self._classes: dict[tuple[str, tuple[str, ...]], int] = {}
        self._keys: dict[tuple[str, ...], int] = {}  # the key sets of dicts whose keys are text
        self.data: dict[str, Any] = {
            "parts": {name: self._attributes(part, name) for name, part in parts.items()}
        }
        self.data["classes"] = [[name, list(names)] for name, names in self._classes]
        self.data["keys"] = [list(keys) for keys in self._keys]

    def _attributes(self, part: object, where: str) -> dict[str, Any]:
        """Return the attributes of a part that are state, or the result of its `get_state`."""
        state = getattr(part, "get_state", None)
        if state is not None:
            return {"": state()}
        if not is_ours(type(part)):
            raise UnfitError(f"{where} has no get_state and set_state")
        found: dict[str, Any] = {}
        for name in state_names(part):
            value = getattr(part, name)
            if not is_made_by_construction(value):
                found[name] = self._node(value, f"{where}.{name}")
        return found

    def _node(self, value: object, where: str) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        known = self._numbers.get(id(value))
        if known is not None:
            return [_AGAIN, known]
        if id(value) in self._names:
            return [_PART, self._names[id(value)]]
        walk = _WALKS.get(kind)
        if walk is not None:
            return walk(self, value, where)
        return self._other(value, where)

    def _note(self, value: object) -> None:
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)

    def _list(self, value: list[Any], where: str) -> Any:
        self._note(value)
        return [_LIST, self._items(value, where)]

    def _tuple(self, value: tuple[Any, ...], where: str) -> Any:
        return [_TUPLE, self._items(value, where)]

    def _deque(self, value: deque[Any], where: str) -> Any:
        self._note(value)
        return [_DEQUE, value.maxlen, self._items(value, where)]

    def _set(self, value: set[Any], where: str) -> Any:
        self._note(value)
        return [_SET, self._items(value, where)]

    def _frozenset(self, value: frozenset[Any], where: str) -> Any:
        return [_FROZENSET, self._items(value, where)]

    def _dict(self, value: dict[Any, Any], where: str) -> Any:
        self._note(value)
        values = self._items(value.values(), where)
        keys = tuple(value)
        known = self._keys.get(keys)  # hundreds of rows have the same keys
        if known is None and _TEXT.issuperset(map(type, keys)):
            known = self._keys[keys] = len(self._keys)
        if known is not None:
            return [_ROW, known, values]
        return [_DICT, self._items(keys, where), values]

    def _items(self, values: Iterable[Any], where: str) -> Any:
        """Return the nodes of values; tuples of plain data go into a dict that marks them."""
        items = list(values)
        kinds = set(map(type, items))
        if kinds <= PLAIN:  # the fast path: windows hold hundreds of numbers
            return items
        if kinds == _TUPLES and PLAIN.issuperset(map(type, chain.from_iterable(items))):
            return {"tuples": items}
        return [self._node(item, where) for item in items]

    def _other(self, value: Any, where: str) -> Any:
        kind = type(value)
        if isinstance(value, MethodType | BuiltinMethodType) and value.__self__ is not None:
            return [_METHOD, self._node(value.__self__, where), value.__name__]
        if kind.__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "ndim", 1):
            return self._node(value.item(), where)
        if not is_ours(kind):
            raise UnfitError(f"{where} is a {kind.__module__}.{kind.__qualname__}")
        self._note(value)
        names = tuple(state_names(value))
        found = self._classes.setdefault((class_name(kind), names), len(self._classes))
        values = [self._node(getattr(value, name), f"{where}.{name}") for name in names]
        return [_OBJECT, found, values]


_WALKS: dict[type, Callable[[Capture, Any, str], Any]] = {
    list: Capture._list,
    tuple: Capture._tuple,
    deque: Capture._deque,
    set: Capture._set,
    frozenset: Capture._frozenset,
    dict: Capture._dict,
}


class Restore:
    """Fills newly constructed parts with the state that was captured from others like them.

    Raises UnfitError if the parts differ. Some may be filled by then, and all must be reset.
    """

    def __init__(self, data: Mapping[str, Any], parts: Mapping[str, object]) -> None:
        self._parts = parts
        self._met: list[Any] = []
        self._filled: set[int] = set()  # the ids of objects that hold restored state already
        try:
            self._classes = [(class_of(name), names) for name, names in data["classes"]]
            self._keys = data["keys"]
            if data["parts"].keys() != parts.keys():
                raise UnfitError("it belongs to other detectors")
            for name, part in parts.items():
                self._fill(part, data["parts"][name], name)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise UnfitError(f"{type(error).__name__}: {error}") from None

    def _fill(self, part: Any, attributes: Mapping[str, Any], where: str) -> None:
        if hasattr(part, "set_state"):
            part.set_state(attributes[""])
            return
        fresh = {
            name: value
            for name in state_names(part)
            if not is_made_by_construction(value := getattr(part, name))
        }
        if fresh.keys() - attributes.keys():
            raise UnfitError(f"{where} has other attributes")
        for name, node in attributes.items():
            object.__setattr__(part, name, self._value(node, fresh.get(name, _ABSENT)))

    def _value(self, node: Any, existing: Any = _ABSENT) -> Any:
        """Return the value of a node; `existing` is filled in place if its type fits."""
        if type(node) is not list:
            return node
        tag = node[0]
        if tag == _AGAIN:
            return self._met[node[1]]
        if tag == _PART:
            return self._parts[node[1]]
        if tag == _METHOD:
            return getattr(self._value(node[1]), node[2])
        if tag == _TUPLE:
            return tuple(self._items(node[1]))
        if tag == _FROZENSET:
            return frozenset(self._items(node[1]))
        if tag == _OBJECT:
            return self._object(*self._classes[node[1]], node[2], existing)
        return self._container(tag, node, existing)

    def _container(self, tag: int, node: Any, existing: Any) -> Any:
        made: Any
        if tag == _DEQUE:
            made = self._place(deque(maxlen=node[1]), existing)
            if made.maxlen != node[1]:
                raise UnfitError("a window has another size")
            made.extend(self._items(node[2]))
        elif tag == _LIST:
            made = self._place([], existing)
            made.extend(self._items(node[1]))
        elif tag == _SET:
            made = self._place(set(), existing)
            made.update(self._items(node[1]))
        elif tag in (_ROW, _DICT):
            made = self._place({}, existing)
            keys = self._keys[node[1]] if tag == _ROW else self._items(node[1])
            made.update(zip(keys, self._items(node[2]), strict=True))
        else:
            raise UnfitError(f"it holds an unknown tag {tag!r:.100}")
        return made

    def _place(self, fresh: Any, existing: Any) -> Any:
        """Return the existing container, emptied, if its type fits; else the fresh one."""
        chosen = fresh
        if type(existing) is type(fresh) and id(existing) not in self._filled:
            existing.clear()
            chosen = existing
        self._filled.add(id(chosen))
        self._met.append(chosen)
        return chosen

    def _items(self, nodes: list[Any] | dict[str, Any]) -> list[Any]:
        if isinstance(nodes, dict):
            return [tuple(items) for items in nodes["tuples"]]
        if list not in set(map(type, nodes)):
            return nodes
        return [self._value(node) for node in nodes]

    def _object(self, kind: type, names: list[str], nodes: list[Any], existing: Any) -> Any:
        if issubclass(kind, msgspec.Struct):
            place = len(self._met)
            self._met.append(None)
            fields = {n: self._value(node) for n, node in zip(names, nodes, strict=True)}
            self._met[place] = kind(**fields)
            return self._met[place]
        declared, others = declared_names(kind)
        if not set(declared) <= set(names) <= {*declared, *others}:
            raise UnfitError(f"{kind.__qualname__} has other attributes")
        made = existing
        if type(existing) is not kind or id(existing) in self._filled:
            made = kind.__new__(kind)
        elif set(state_names(made)) != set(names):
            raise UnfitError(f"{kind.__qualname__} has other attributes")
        self._filled.add(id(made))
        self._met.append(made)
        for name, node in zip(names, nodes, strict=True):
            value = self._value(node, getattr(made, name, _ABSENT))
            object.__setattr__(made, name, value)
        return made
