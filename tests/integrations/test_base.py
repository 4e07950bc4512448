"""Every hook starts in the same way."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

import klarm
from cases import over
from klarm.integrations.base import checked_settings, start_run
from klarm.integrations.reaction import Reaction
from own_parts import PassRateDetector

INTEGRATIONS = Path(klarm.__file__).parent / "integrations"
MODULES = sorted(path.stem for path in INTEGRATIONS.glob("*.py"))
PLUGIN = "verl"  # verl starts it, by verl's own plugin mechanism, and gives it no settings
# Methods that klarm calls from `tap`, which guards them, rather than the framework.
HEARD_BY_TAP = {("rllib", "on_saved"), ("sb3", "_on_save")}
# RLlib does not notify callbacks of the end; a tracker may log on after it.
WITHOUT_END = {"rllib", "trackio", "wandb"}
DOCS = Path(__file__).parents[2] / "docs" / "frameworks"


def source_of(module: str) -> ast.Module:
    """Return a module as a tree. Its framework is not installed here, so it is only read."""
    return ast.parse((INTEGRATIONS / f"{module}.py").read_text())


def nodes_of(module: str) -> list[ast.AST]:
    return list(ast.walk(source_of(module)))


def entrance_of(module: str) -> ast.FunctionDef | None:
    """Return what a user calls: `watch`, or `KlarmCallback`, which RLlib makes `with_settings`."""
    for node in source_of(module).body:
        if isinstance(node, ast.FunctionDef) and node.name == "watch":
            return node
        if isinstance(node, ast.ClassDef) and node.name == "KlarmCallback":
            methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
            return methods.get("with_settings") or methods["__init__"]
    return None


ENTRANCES = {module: called for module in MODULES if (called := entrance_of(module))}
HOOKS = sorted([*ENTRANCES, PLUGIN])


def test_every_hook_has_its_page_and_its_import_path() -> None:
    """The import path is in training scripts, so it must stay."""
    known = ["openrlhf", "rllib", "sb3", "trackio", "trl", "verl", "wandb"]
    assert known == HOOKS, "add your module to this list; one that is in it must stay"
    for hook in HOOKS:
        page = DOCS / f"{hook.replace('_', '-')}.md"
        assert page.is_file(), f"docs/frameworks/{page.name} is missing"
        linked = f"({page.name})" in (DOCS / "index.md").read_text()
        assert linked, f"docs/frameworks/index.md lacks a row that links to {page.name}"


def test_every_hook_starts_in_the_same_way() -> None:
    """It checks its settings with `checked_settings`, and nothing but a hook does."""
    calling = [
        module
        for module in MODULES
        if any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "checked_settings"
            for node in nodes_of(module)
        )
    ]
    assert calling == HOOKS


@over("module", sorted({*MODULES} - {"base"}))
def test_nothing_but_base_reads_settings_or_starts_a_monitor(module: str) -> None:
    """Not by `klarm.init`, which needs klarm itself, nor by what it calls."""
    imported = set()
    for node in nodes_of(module):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    assert not imported & {"klarm", "klarm.api", "klarm.config.load", "klarm.config.layers"}


@over("hook", ENTRANCES)
def test_every_hook_takes_a_run_and_then_only_keywords(hook: str) -> None:
    """So that a setting that is added or moves changes no training script."""
    entrance = ENTRANCES[hook]
    args = entrance.args
    positional = [arg.arg for arg in (*args.posonlyargs, *args.args)]
    assert [name for name in positional if name not in {"self", "cls"}] == ["run"]
    assert args.vararg is None
    assert args.kwarg is not None
    needed = {"config", "rank"} if entrance.name == "watch" else {"config", "on_critical"}
    assert needed <= {arg.arg for arg in args.kwonlyargs}


def test_watch_returns_the_monitor_if_it_starts_one() -> None:
    """OpenRLHF's does not: it is called in every worker, before the one that logs has a logger."""
    returned = {
        hook: ast.unparse(entrance.returns)
        for hook, entrance in ENTRANCES.items()
        if entrance.name == "watch" and entrance.returns
    }
    assert returned == {"openrlhf": "None", "trackio": "Monitor", "wandb": "Monitor"}


def callbacks() -> list[tuple[str, ast.ClassDef]]:
    return [
        (hook, node)
        for hook in HOOKS
        for node in nodes_of(hook)
        if isinstance(node, ast.ClassDef) and node.name == "KlarmCallback"
    ]


@pytest.mark.parametrize(("hook", "callback"), callbacks(), ids=[hook for hook, _ in callbacks()])
def test_a_callback_never_raises_into_training(hook: str, callback: ast.ClassDef) -> None:
    """Every method that the framework may call is guarded, and its failures are reported."""
    bases = {base.id for base in callback.bases if isinstance(base, ast.Name)}
    assert "ReportsFailures" in bases, f"KlarmCallback of {hook}.py must inherit ReportsFailures"
    bare = []
    for method in callback.body:
        if not isinstance(method, ast.FunctionDef) or (hook, method.name) in HEARD_BY_TAP:
            continue
        marks = {name.id for mark in method.decorator_list for name in names_in(mark)}
        called = method.name.startswith("_on_") or not method.name.startswith("_")
        if called and not {"never_raises", "classmethod"} & marks:
            bare.append(method.name)
    assert bare == [], f"these methods of {hook}.py need @never_raises"


def names_in(node: ast.AST) -> list[ast.Name]:
    return [name for name in ast.walk(node) if isinstance(name, ast.Name)]


@pytest.mark.parametrize("hook", sorted({*HOOKS} - WITHOUT_END))
def test_every_hook_says_when_training_ends(hook: str) -> None:
    """Otherwise a run that was cut short is taken for one that has finished."""
    called = {
        node.func.attr
        for node in nodes_of(hook)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    told = {"training_began", "training_ended"} <= called or "finish" in called
    assert told, f"{hook}.py must call training_began and training_ended, or finish"


def test_wrong_settings_name_the_place_the_value_and_the_remedy() -> None:
    """The error is raised before anything has started."""
    with pytest.raises(klarm.ConfigError, match=r"on_critical is 'pause': it must be \"none\""):
        Reaction("pause", None)  # type: ignore[arg-type]
    with pytest.raises(klarm.ConfigError, match=r"KlarmCallback.*did you mean trust_region"):
        checked_settings("", None, None, {"trust_regio": {}}, "KlarmCallback()")
    with pytest.raises(klarm.ConfigError, match="a/b"):
        checked_settings("", "a/b", None, {}, "KlarmCallback()")


def test_the_hook_names_its_framework_unless_the_user_names_another() -> None:
    """The framework decides what keys mean."""
    assert checked_settings("sb3", None, None, {}, "here").framework == "sb3"
    said = checked_settings("trl", None, None, {"framework": "trl/RLOO"}, "here")
    assert said.framework == "trl/RLOO"


def test_the_users_name_of_a_run_is_preferred_to_the_frameworks() -> None:
    """The framework's name is turned into a valid name of a folder."""
    settings = checked_settings("", None, None, {"console": False}, "here")
    assert start_run(settings, "my/run: 7").run == "my-run: 7"
    named = checked_settings("", "mine", None, {"console": False}, "here")
    assert start_run(named, "theirs").run == "mine"


def test_a_hook_accepts_the_arguments_of_klarm_init() -> None:
    """This includes a configuration and the user's own detectors."""
    config = klarm.Config.load(console=False, dir="elsewhere")
    own = {"detectors": [PassRateDetector(floor=0.3)]}
    monitor = start_run(checked_settings("", "a", config, own, "here"))
    assert monitor.detectors[-1].name == "pass_rate_floor"
    assert Path("elsewhere/a/journal.jsonl").exists()


def test_a_secret_given_as_text_costs_its_channel_in_another_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As in a trial of Ray Tune: a pickle does not hold it. The run is watched all the same."""
    hook = {"type": "webhook", "url": "http://127.0.0.1:9/hook", "bearer_token": "hunter2-hunter2"}
    settings = checked_settings("", "a", None, {"channels": {"ops": hook}}, "here")
    pickled = pickle.dumps(settings)
    assert b"hunter2" not in pickled
    monitor = start_run(pickle.loads(pickled))
    assert monitor.recorded
    said = capsys.readouterr().err
    assert "channels.ops.bearer_token is plain text, which is not passed on" in said
