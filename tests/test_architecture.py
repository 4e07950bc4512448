"""Data flows one way: which part may know of which, and what `import klarm` may load."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "klarm"

# Top-level modules and packages in the order of the flow: each may import those before it.
LAYERS = [
    "version",
    "text",
    "notebook",
    "descriptors",
    "nonblocking",
    "types",
    "boundary",
    "terminal",
    "notices",
    "settings",
    "plugins",
    "stats",
    "metrics",
    "journal",
    "detectors",
    "incidents",
    "snapshots",
    "channels",
    "config",
    "console",
    "monitor",
    "delivery",
    "api",
    "testing",
    "probe",
    "integrations",
    "sources",
    "analysis",
    "server",
    "cli",
]
PACKAGES = [layer for layer in LAYERS if (SOURCE / layer).is_dir()]
DOORS = {f"klarm.{package}" for package in PACKAGES}
# Packages of like parts, one file each: a part may be imported by its own name.
COLLECTIONS = {"detectors", "channels", "integrations", "sources", "analysis", "cli"}
# Imported where they are used: numpy, or the threads of a run that has channels.
LOADED_WHEN_USED = {"klarm.stats.batch", "klarm.stats.dip", "klarm.delivery.dispatcher"}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Return the parts of klarm that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("klarm.")}
    return found


def files() -> list[Path]:
    entrances = {"__init__", "__main__"}
    return [path for path in SOURCE.rglob("*.py") if part_of(path) not in entrances]


def test_every_part_has_its_place() -> None:
    """A new package, or a module at the top, is put into the order on purpose."""
    assert {part_of(path) for path in files()} == set(LAYERS)


def test_the_map_for_developers_has_every_part_in_its_order() -> None:
    """The first column of its table is the order that these tests hold."""
    text = (TESTS.parent / "docs" / "architecture.md").read_text()
    table = text.partition("## What lives where")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (`[^|]*) \|", table)
    assert [part for row in rows for part in re.findall(r"`(\w+)`", row)] == LAYERS


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_downward(path: Path) -> None:
    """No part knows of one above it."""
    allowed = set(LAYERS[: LAYERS.index(part_of(path)) + 1])
    assert imports_of(path) <= allowed


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_packages_are_entered_by_the_door(path: Path) -> None:
    """What others may use of a package is in its `__init__`, which says what lives there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("klarm."):
            package = node.module.split(".")[1]
            inside = package == part_of(path) or package in COLLECTIONS
            is_door = node.module.count(".") == 1
            assert inside or is_door or node.module in LOADED_WHEN_USED, node.module


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_door_offers_what_others_take(path: Path) -> None:
    """Nothing is taken from a package that its `__all__` does not name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in DOORS:
            package = node.module.split(".")[1]
            taken = {alias.name for alias in node.names}
            if package != part_of(path) and package not in COLLECTIONS:
                assert taken <= set(importlib.import_module(node.module).__all__), node.module


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_says_what_lives_there(package: str) -> None:
    """In the first line of its `__init__`."""
    doc = ast.get_docstring(ast.parse((SOURCE / package / "__init__.py").read_text()))
    assert doc
    assert doc.splitlines()[0].endswith(".")


WRITES = re.compile(
    r"(?<![.\w])print\(|click\.(secho|echo)|\bstd(out|err)\.write"
    r"|^\s*from rich\.console import .*Console|^\s*from rich import"
)


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_one_place_writes_to_a_terminal(path: Path) -> None:
    """It cleans what it writes, so nobody passes by it."""
    code = re.sub(r'(?s)""".*?"""|"[^"\n]*"', "", path.read_text())
    code = re.sub(r"(?m)^if TYPE_CHECKING:\n(    .*\n)+", "", code)
    found = [line for line in code.splitlines() if WRITES.search(line)]
    assert path.name == "terminal.py" or found == []


def modules() -> list[Path]:
    # What is known of each framework is data, and one test goes over all of it.
    data = SOURCE / "metrics" / "frameworks"
    return [path for path in files() if path.stem != "__init__" and path.parent != data]


def names(test_file: Path, module: Path) -> bool:
    """Tell whether a test file names a module: by its dotted path, or in its docstring."""
    text = test_file.read_text()
    dotted = ".".join(module.relative_to(SOURCE.parent).with_suffix("").parts)
    if re.search(rf"\b{re.escape(dotted)}\b", text):
        return True
    doc = ast.get_docstring(ast.parse(text)) or ""
    return re.search(rf"(?<![\w/]){re.escape(module.name)}\b", doc) is not None


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_has_its_tests(path: Path) -> None:
    """`tests/` mirrors `src/klarm`: a file of its own, or one of its package that names it."""
    folders = [TESTS if path.parent == SOURCE else TESTS / part_of(path)]
    if part_of(path) in ("integrations", "probe"):
        folders.append(TESTS / "frameworks")  # where the real ones are installed
    own = [folder / f"test_{path.stem}.py" for folder in folders]
    others = [found for folder in folders for found in sorted(folder.glob("test_*.py"))]
    assert any(file.is_file() for file in own) or any(names(file, path) for file in others), (
        f"add {own[-1].relative_to(TESTS.parent)}, "
        f"or name {path.name} in the docstring of another file of that folder"
    )


def test_import_paths_that_users_have_stay() -> None:
    """They stand in training scripts and in verl's plugin list."""
    from importlib.metadata import entry_points

    from klarm.detectors import CATALOGUE, KLExplosionDetector

    assert importlib.import_module("klarm.detectors.kl_explosion").KLExplosionDetector is (
        KLExplosionDetector
    )
    for kind in CATALOGUE:
        assert kind.__module__ == f"klarm.detectors.{kind.name}"
    (plugin,) = entry_points(group="verl.plugins", name="klarm")
    assert plugin.value == "klarm.integrations.verl"


def loaded_after(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_klarm_loads_nothing_heavy() -> None:
    """It is a guest in somebody else's process."""
    loaded = loaded_after("import klarm")
    assert not loaded & {"numpy", "rich", "click", "yaml", "msgspec", "asyncio"}


def test_watching_a_run_loads_neither_numpy_nor_click() -> None:
    """Without a terminal not even rich."""
    loaded = loaded_after(
        "import klarm; klarm.init('a'); klarm.log({'kl': 0.1}); klarm.log({'kl': float('nan')})"
    )
    assert not loaded & {"numpy", "rich", "click", "yaml", "asyncio"}


def test_setting_up_a_channel_loads_no_extra() -> None:
    """The picture is drawn, and matplotlib loaded, when there is an incident."""
    loaded = loaded_after(
        "import klarm; klarm.init('a', channels={'slack': {'webhook_url': 'https://a.invalid/b'}})"
    )
    assert not loaded & {"matplotlib", "apprise", "numpy", "yaml", "asyncio"}


def test_commands_load_the_server_only_to_serve() -> None:
    """Its extra need not be installed where runs are trained."""
    loaded = loaded_after("import klarm.cli.group")
    assert not loaded & {"starlette", "uvicorn", "anyio", "sqlite3", "numpy"}


def test_every_public_name_can_be_had() -> None:
    """They load when they are first used, so a slip would show late."""
    import klarm

    assert all(getattr(klarm, name) for name in klarm.__all__)
    assert set(klarm.__all__) == set(dir(klarm))
    with pytest.raises(AttributeError, match="no attribute 'lgo'"):
        klarm.lgo  # noqa: B018
