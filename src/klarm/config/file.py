"""The configuration file: finds it and parses its YAML."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from klarm.settings import ConfigError, did_you_mean

if TYPE_CHECKING:
    import yaml

DEFAULT_FILE = "klarm.yaml"
FILE_VARIABLE = "KLARM_CONFIG"

_IN_QUOTES = "text that begins with one of ! * & @ % ` must be in quotes"
# What messages of the YAML parser may quote: a single character, or the name of a YAML element.
_HARMLESS = re.compile(r"'(\\?.|\\\w+|<[a-z ]+>)'")
_MAX_MERGED = 5_000  # keys, far more than klarm has settings
_MAX_BYTES = 2**20
_PLAIN_KEY = re.compile(r"[\w .-]{1,60}")


def find_file(
    named: str | os.PathLike[str] | None, environment: Mapping[str, str], look_here: bool
) -> Path | None:
    """Return the named file, or klarm.yaml in the current directory; None if there is none."""
    who = "config file"
    if isinstance(named, Mapping):
        raise ConfigError(
            "klarm.init(): config names a file; settings are keywords, as in "
            "klarm.init(kl_explosion={'sigma_multiplier': 5.0})"
        )
    if named is None and environment.get(FILE_VARIABLE):
        named, who = environment[FILE_VARIABLE], FILE_VARIABLE
    if named is None:
        here = Path(DEFAULT_FILE)
        return here if look_here and here.is_file() else None
    path = Path(named).expanduser()
    if not path.is_file():
        near = [found.name for found in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
        raise ConfigError(
            f"{who} {str(path)!r} does not exist{did_you_mean(path.name, near)}"
            " (`klarm init` writes one with every default)"
        )
    return path


def parse_file(path: Path) -> Mapping[str, object]:
    """Return the content of a file; raise ConfigError with the line if it is not valid."""
    # Many runs have no file, so yaml is imported only here.
    import yaml

    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(f"{path}: larger than 1 MiB, so it cannot be a configuration file")
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_unique_key_loader())
    except yaml.MarkedYAMLError as error:
        where = f" line {error.problem_mark.line + 1}:" if error.problem_mark else ""
        raise ConfigError(f"{path}:{where} not valid YAML: {_safe_message(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error!s:.200}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        what = "a list" if isinstance(content, list) else "a single value"
        raise ConfigError(f"{path}: must contain `key: value` lines, got {what}")
    return content


def _safe_message(error: yaml.MarkedYAMLError) -> str:
    """Return what is wrong, without quoting text of the file, which may be a secret."""
    problem, context = error.problem or "", error.context or ""
    if re.match("could not determine a constructor for the tag|.*tag handle", problem):
        return f"an unknown tag (!...); {_IN_QUOTES}"
    if problem.startswith(r"found character '\t' that cannot start any token"):
        return "a tab character; use spaces"
    if problem.startswith("found undefined alias"):
        return f"an unknown alias (*...); {_IN_QUOTES}"
    if not {"'", '"'}.isdisjoint(_HARMLESS.sub("", problem)):
        problem = "a syntax error (the text is not shown)"
    begins = "cannot start any token" in problem or re.search("alias|anchor|tag|direct", context)
    return f"{problem}; {_IN_QUOTES}" if begins else problem


def _unique_key_loader() -> type:
    """Return a safe YAML loader that rejects duplicate keys, of which YAML would take the last."""
    import yaml

    class UniqueKeyLoader(yaml.SafeLoader):
        def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
            try:
                return super().construct_object(node, deep)
            except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
                # The message of the original error would quote the value.
                raise yaml.MarkedYAMLError(
                    problem="a value that is not a valid number, date or other type it is marked "
                    "as; text must be in quotes",
                    problem_mark=node.start_mark,
                ) from None

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            super().flatten_mapping(node)
            if len(node.value) > _MAX_MERGED:  # nested merges grow exponentially
                raise yaml.MarkedYAMLError(
                    problem=f"merge keys (<<) that add more than {_MAX_MERGED} keys",
                    problem_mark=node.start_mark,
                )

        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[object, object]:
            seen = set()
            for key_node, _ in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    continue
                if key_node.value in seen:
                    key = key_node.value if _PLAIN_KEY.fullmatch(key_node.value) else "a key"
                    raise yaml.MarkedYAMLError(
                        problem=f"{key} is given twice", problem_mark=key_node.start_mark
                    )
                seen.add(key_node.value)
            return super().construct_mapping(node, deep)

    return UniqueKeyLoader
