"""The file of settings: which one is read, and what its YAML holds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from klarm.settings import ConfigError, did_you_mean

DEFAULT_FILE = "klarm.yaml"
FILE_VARIABLE = "KLARM_CONFIG"


def find_file(
    named: str | os.PathLike[str] | None, environment: Mapping[str, str], look_here: bool
) -> Path | None:
    """Return the file that is named, or klarm.yaml if there is one here; None without any."""
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
    """Return what a file holds; raise ConfigError, with the line, where it is no YAML of ours."""
    # yaml is imported where a file is read: many runs have none.
    import yaml

    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_unique_key_loader())
    except yaml.MarkedYAMLError as error:
        where = f" line {error.problem_mark.line + 1}:" if error.problem_mark else ""
        raise ConfigError(f"{path}:{where} not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid YAML: {error!s:.200}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path}: must hold `key: value` lines, got {content!r:.60}")
    return content


def _unique_key_loader() -> type:
    """Return a safe YAML loader that refuses a key given twice, where plain YAML takes the last."""
    import yaml

    class UniqueKeyLoader(yaml.SafeLoader):
        def construct_mapping(
            self, node: yaml.MappingNode, deep: bool = False
        ) -> dict[object, object]:
            seen = set()
            for key_node, _ in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    continue
                if key_node.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"{key_node.value} is there twice", problem_mark=key_node.start_mark
                    )
                seen.add(key_node.value)
            return super().construct_mapping(node, deep)

    return UniqueKeyLoader
