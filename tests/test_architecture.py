"""Data flows one way: which part may know of which, and what `import klarm` may load."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from klarm.journal import Record

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
    "speech",
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
    "wording",
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
    "store",
    "runs",
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


def files() -> list[Path]:
    entrances = {"__init__", "__main__"}
    return [path for path in sorted(SOURCE.rglob("*.py")) if part_of(path) not in entrances]


FILES = files()


@cache
def imports_of(path: Path) -> list[tuple[str, str]]:
    """Return what a file imports of klarm, wherever in the file: module and name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] == "klarm"]


def test_every_part_has_its_place() -> None:
    """A new package, or a module at the top, is put into the order on purpose."""
    assert {part_of(path) for path in FILES} == set(LAYERS)


def test_the_map_for_developers_has_every_part_in_its_order() -> None:
    """The first column of its table is the order that these tests hold."""
    text = (TESTS.parent / "docs" / "architecture.md").read_text()
    table = text.partition("## What lives where")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| (`[^|]*) \|", table)
    assert [part for row in rows for part in re.findall(r"`(\w+)`", row)] == LAYERS


# An alert holds facts, and has its sentences made only when somebody asks for them.
MADE_WHEN_ASKED = {("types", "wording")}


def test_imports_point_downward() -> None:
    """No part knows of one above it."""
    problems = []
    for path in FILES:
        allowed = LAYERS[: LAYERS.index(part_of(path)) + 1]
        for module, name in imports_of(path):
            part = f"{module}.{name}".split(".")[1]
            if part and part not in allowed and (part_of(path), part) not in MADE_WHEN_ASKED:
                problems.append(f"{path.relative_to(SOURCE)} imports {part}, which is above it")
    assert not problems, "\n".join(problems)


# What reads a journal. Those who show runs have a view of them instead; the others continue a run,
# replay it, or look for a few records beside training.
READERS = {
    *("Fold", "history", "read_journal", "recorded_events", "resume_lines", "with_commands"),
    *("steps_back", "steps_of", "record_at", "times_of", "place_of", "opening_of"),
}
MAY_READ = {"journal", "runs", "monitor", "snapshots", "delivery", "sources", "analysis"}


def test_whoever_shows_a_run_has_the_one_view_of_it() -> None:
    """Commands and page read no journal, so they cannot come to different views."""
    problems = [
        f"{path.relative_to(SOURCE)} imports {name}: use klarm.runs"
        for path in FILES
        if part_of(path) not in MAY_READ
        for module, name in imports_of(path)
        if module.startswith("klarm.journal") and name in READERS
    ]
    assert not problems, "\n".join(problems)


def test_only_the_journal_and_the_view_decode_lines_of_journals() -> None:
    """Everybody else is given records."""
    records = {record.__name__ for record in Record.__args__}  # type: ignore[attr-defined]
    problems = []
    for path in FILES:
        if part_of(path) in ("journal", "runs"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and "ecode" in ast.unparse(node.func):
                named = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                problems += [f"{path.relative_to(SOURCE)} decodes {n}" for n in named & records]
    assert not problems, "\n".join(problems)


def test_packages_are_entered_by_the_door() -> None:
    """What others may use of a package is in its `__init__`, which says what lives there."""
    problems = []
    for path in FILES:
        for module, name in imports_of(path):
            package, _, inside = module.removeprefix("klarm").lstrip(".").partition(".")
            is_free = package in COLLECTIONS or package == part_of(path)
            if name and inside and not is_free and module not in LOADED_WHEN_USED:
                problems.append(f"{path.relative_to(SOURCE)} imports from inside: {module}")
    assert not problems, "\n".join(problems)


def test_a_door_offers_what_others_take() -> None:
    """Nothing is taken from a package that its `__all__` does not name."""
    problems = []
    for path in FILES:
        for module, name in imports_of(path):
            package = module.rpartition(".")[2]
            if not name or module not in DOORS or package in {part_of(path), *COLLECTIONS}:
                continue
            if name not in importlib.import_module(module).__all__:
                problems.append(f"{path.relative_to(SOURCE)}: {name} is not in {module}.__all__")
    assert not problems, "\n".join(problems)


def test_a_package_says_what_lives_there() -> None:
    """In the docstring of its `__init__`."""
    inits = {package: (SOURCE / package / "__init__.py").read_text() for package in PACKAGES}
    assert [name for name, text in inits.items() if not ast.get_docstring(ast.parse(text))] == []


WRITES = re.compile(
    r"(?<![.\w])print\(|click\.(secho|echo)|\bstd(out|err)\.write"
    r"|^\s*from rich\.console import .*Console|^\s*from rich import"
)


def test_one_place_writes_to_a_terminal() -> None:
    """It cleans what it writes, so nobody passes by it."""
    problems = []
    for path in FILES:
        code = re.sub(r'(?s)""".*?"""|"[^"\n]*"', "", path.read_text())
        code = re.sub(r"(?m)^if TYPE_CHECKING:\n(    .*\n)+", "", code)
        if path.name != "terminal.py":
            found = [line.strip() for line in code.splitlines() if WRITES.search(line)]
            problems += [f"{path.relative_to(SOURCE)}: {line}" for line in found]
    assert not problems, "\n".join(problems)


def test_every_module_has_its_tests() -> None:
    """`tests/` mirrors `src/klarm`: a file of its own, or one of its package that names it."""
    # What is known of each framework is data, and one test goes over all of it.
    data = SOURCE / "metrics" / "frameworks"
    modules = [path for path in FILES if path.stem != "__init__" and path.parent != data]
    problems = []
    for path in modules:
        folders = [TESTS if path.parent == SOURCE else TESTS / part_of(path)]
        if part_of(path) in ("integrations", "probe"):
            folders.append(TESTS / "frameworks")  # where the real ones are installed
        own = [folder / f"test_{path.stem}.py" for folder in folders]
        if any(file.is_file() for file in own):
            continue
        dotted = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
        if not any(names(folder, dotted, path.name) for folder in folders):
            problems.append(
                f"add {own[-1].relative_to(TESTS.parent)}, "
                f"or name {path.name} in the docstring of another file of that folder"
            )
    assert not problems, "\n".join(problems)


@cache
def texts_of(folder: Path) -> list[tuple[str, str]]:
    """Return the test files of a folder: the text of each, and its docstring."""
    texts = [path.read_text() for path in sorted(folder.glob("test_*.py"))]
    return [(text, text.removeprefix('"""').partition('"""')[0]) for text in texts]


def names(folder: Path, dotted: str, file: str) -> bool:
    """Tell whether a test file names a module: by its dotted path, or in its docstring."""
    path = re.compile(rf"\b{re.escape(dotted)}\b")
    name = re.compile(rf"(?<![\w/]){re.escape(file)}\b")
    return any(path.search(text) or name.search(doc) for text, doc in texts_of(folder))


def test_import_paths_that_users_have_stay() -> None:
    """They stand in training scripts and in verl's plugin list."""
    from importlib.metadata import entry_points

    from klarm.detectors import CATALOGUE, KLExplosionDetector

    assert importlib.import_module("klarm.detectors.kl_explosion").KLExplosionDetector is (
        KLExplosionDetector
    )
    for kind in CATALOGUE:
        assert kind.__module__ in (f"klarm.detectors.{kind.name}", "klarm.detectors.kl_probe")
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
