"""Everything a user can set or run is documented."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import yaml

import klarm
from cases import over
from docs_tables import pages, with_tables
from klarm import detectors
from klarm.channels import CHANNELS, Channel, channel_kind
from klarm.channels.message import ENDINGS
from klarm.cli.demo import read_recording
from klarm.cli.group import klarm as command
from klarm.config.layers import SECTIONS, TOP_LEVEL
from klarm.config.routes import Route
from klarm.delivery.log import Delivered
from klarm.detectors import CATALOGUE, Detector
from klarm.journal.file import MemoryJournal
from klarm.journal.records import Record
from klarm.metrics.catalogue import METRICS
from klarm.metrics.frameworks import FRAMEWORKS
from klarm.monitor.monitor import Monitor
from klarm.settings.fields import Names, Setting, settings_of
from klarm.settings.secret import Secret
from klarm.types import METRIC_AFTER, Command, Event
from klarm.wording import event_text

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Settings of every detector that are documented once, in docs/configuration.md.
SHARED = {"confirm_steps", "resolve_after"}


def spelt(setting: Setting) -> str:
    """Return a default as the tables of the docs spell it."""
    if isinstance(setting.default, bool):
        return str(setting.default).lower()
    if isinstance(setting.default, Names):
        return "[]"
    return '""' if not setting.default and setting.kind in (str, Secret) else str(setting.default)


def table_rows(page: Path) -> dict[str, list[str]]:
    """Return the tables of a page: cells by the name in the first column."""
    rows = [
        [cell.strip().strip("`") for cell in line.strip("| \n").split("|")]
        for line in page.read_text().splitlines()
        if line.startswith("|")
    ]
    return {cells[0]: cells for cells in rows}


@over("kind", CATALOGUE)
def test_every_detector_has_a_page_with_every_setting(kind: type[Detector]) -> None:
    """With its default as it is now."""
    rows = table_rows(DOCS / "detectors" / f"{kind.name}.md")
    for setting in settings_of(kind).values():
        if setting.name in SHARED:
            continue
        assert setting.name in rows, f"docs/detectors/{kind.name}.md lacks {setting.name}"
        wrong = f"docs/detectors/{kind.name}.md has another default of {setting.name}"
        assert rows[setting.name][1] == spelt(setting), wrong


def test_every_detector_is_exported() -> None:
    """By the name of its class."""
    for kind in CATALOGUE:
        exported = kind.__name__ in detectors.__all__
        assert exported, f"detectors/__init__.py lacks {kind.__name__} in __all__"


def test_the_tables_of_detectors_are_up_to_date() -> None:
    """They follow from the catalogue."""
    assert [page.name for page in pages()] == ["incidents.md", "index.md", "without-kl.md"]
    for page in pages():
        text = page.read_text()
        assert text == with_tables(text), f"make approve writes the tables of {page.name} again"


@over("type_", CHANNELS)
def test_every_channel_has_a_page_with_every_setting(type_: str) -> None:
    """With its default as it is now; those of every channel are on the index."""
    index = DOCS / "channels" / "index.md"
    shared = {**settings_of(Route), **settings_of(Channel)}
    rows = table_rows(index)
    for setting in shared.values():
        assert rows[setting.name][1] == spelt(setting)
    page = DOCS / "channels" / f"{type_}.md"
    rows = table_rows(page)
    for setting in settings_of(channel_kind(type_)).values():
        if setting.name not in shared:
            assert setting.name in rows, f"{page} lacks {setting.name}"
            wrong = f"{page} has another default of {setting.name}"
            assert rows[setting.name][1] == spelt(setting), wrong
    linked = f"({type_}.md)" in index.read_text()
    assert linked, f"docs/channels/index.md lacks a row that links to {type_}.md"


def test_every_general_setting_is_documented() -> None:
    """In docs/configuration.md, with the environment variable that sets it."""
    page = DOCS / "configuration.md"
    rows = table_rows(page)
    for setting in TOP_LEVEL.values():
        assert setting.name in rows
        assert rows[setting.name][1] == spelt(setting)
        assert f"KLARM_{setting.name.upper()}" in page.read_text()
    for setting in SECTIONS["incidents"].values():
        assert setting.name in rows, f"{page} lacks a row for {setting.name}"
        assert rows[setting.name][1] == spelt(setting), f"{page}: the default of {setting.name}"
        where = (DOCS / "incidents.md").read_text()
        assert f"`{setting.name}`" in where, f"docs/incidents.md does not name {setting.name}"


def test_every_command_is_documented() -> None:
    """In the index of the docs."""
    index = (DOCS / "index.md").read_text()
    for name in command.commands:
        assert f"klarm {name}" in index


def test_every_record_of_the_journal_is_documented() -> None:
    """By the type it is tagged with, and each of its fields in its own section."""
    page = (DOCS / "journal.md").read_text()
    for record in Record.__args__:  # type: ignore[attr-defined]
        tag = record.__struct_config__.tag
        assert f"\n| [`{tag}`](#{tag}) |" in page, f"docs/journal.md lacks a row for {tag}"
        section = page.partition(f"\n### `{tag}`\n")[2].partition("\n##")[0]
        assert section, f"docs/journal.md lacks a section ### `{tag}`"
        if record is Command:
            section += page.partition("\n## What people asked for")[2].partition("\n## ")[0]
        assert not (lacks := fields_not_in(section, record)), f"section `{tag}`: {lacks}"
    sent = page.partition("\n## What was sent")[2].partition("\n## ")[0]
    section = re.split(r"\n`\w+`: ", sent.partition("\n`delivery`: ")[2])[0]
    assert not (lacks := fields_not_in(section, Delivered)), f"section `delivery`: {lacks}"


def fields_not_in(section: str, record: type[msgspec.Struct]) -> str:
    """Return what docs/journal.md lacks in the section of a record; empty if nothing."""
    names = [field.encode_name for field in msgspec.structs.fields(record)]
    missing = [name for name in names if f"`{name}`" not in section]
    return f"docs/journal.md lacks the fields {missing}" if missing else ""


def test_every_metric_is_documented_with_its_keys() -> None:
    """As they are now."""
    rows = table_rows(DOCS / "metrics.md")
    for metric in METRICS.values():
        keys = ", ".join(f"`{key}`" for key in metric.keys) or "–"
        assert metric.name in rows, f"docs/metrics.md lacks a row for {metric.name}"
        said = [metric.name, metric.meaning, keys.strip("`")]
        row = f"| `{metric.name}` | {metric.meaning} | {keys} |"
        assert rows[metric.name] == said, f"this row of docs/metrics.md must be\n{row}"


def test_what_no_detector_judges_is_named() -> None:
    """On the page of the one detector that would otherwise miss it."""
    text = (DOCS / "detectors" / "metric_lost.md").read_text()
    (sentence,) = re.findall(r"that klarm only shows: (.*?) and losses", text, re.S)
    named = re.findall(r"`(\w+)`", sentence)
    assert set(named) - {"reward_dip_p"} == {name for name in METRICS if METRICS[name].only_shown}


def test_every_key_of_a_framework_is_documented_with_its_kind() -> None:
    """As it is now."""
    lines = (DOCS / "metrics.md").read_text().splitlines()
    for framework, table in FRAMEWORKS.items():
        for key, row in table.items():
            said = [str(row.kind) if row.kind else "", "logged as minus it" if row.negated else ""]
            what = ", ".join(part for part in said if part) or "–"
            assert f"| {framework} | `{key}` | `{row.metric}` | {what} |" in lines


def test_links_between_pages_lead_somewhere() -> None:
    """In the docs, the README and the notes for contributors."""
    for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_on_the_site() -> None:
    """In its navigation, which names no other; `make docs` is strict about links."""
    named = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    pages -= {page for page in pages if page.startswith("detectors/")}  # mkdocs_hooks.py adds them
    assert pages - set(named) == set(), "mkdocs.yml lacks a line for these pages"
    assert set(named) - pages == set(), "mkdocs.yml names pages that do not exist"
    assert len(named) == len(pages)


class SiteLoader(yaml.SafeLoader):
    """Reads mkdocs.yml, in which some values are names of Python functions."""


SiteLoader.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda _, name, __: name)


def test_the_site_is_strict_and_has_search_and_the_api() -> None:
    """Made by MkDocs Material; a broken link or anchor is an error."""
    site = yaml.load((ROOT / "mkdocs.yml").read_text(), SiteLoader)
    assert site["strict"] is True
    assert site["theme"]["name"] == "material"
    plugins = [
        name
        for plugin in site["plugins"]
        for name in ([plugin] if isinstance(plugin, str) else plugin)
    ]
    assert {"search", "mkdocstrings"} <= {*plugins}
    assert {"omitted_files", "unrecognized_links", "anchors"} <= site["validation"].keys()
    assert {*site["validation"].values()} == {"warn"}  # which is an error where it is strict
    reference = (DOCS / "reference.md").read_text()
    for name in {*klarm.__all__} - {"__version__"}:
        assert re.search(rf"^::: klarm\.[\w.]*\b{name}$", reference, re.M), name
    config = reference.partition("\n::: klarm.config.Config\n")[2].partition("\n:::")[0]
    assert "members: [load]" in config
    assert "\n::: klarm.testing" in reference


def test_every_page_is_linked_from_the_first() -> None:
    """Or from the index of its folder, which the first page links to."""
    reachable: set[Path] = set()
    for index in ("index.md", "channels/index.md", "frameworks/index.md"):
        links = re.findall(r"\]\(([^)#:]+\.md)", (DOCS / index).read_text())
        reachable.update((DOCS / index).parent.joinpath(link).resolve() for link in links)
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {(DOCS / "index.md").resolve()}
    lost = sorted(page.name for page in pages - reachable)
    assert lost == [], f"link {lost} from docs/index.md, or from the index.md of its folder"


def test_pagerduty_resolves_for_the_reasons_on_its_page() -> None:
    """With spaces between their words, as people read them."""
    page = (DOCS / "channels" / "pagerduty.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith("| It is resolved: "))
    missing = [reason for reason in ENDINGS if reason.replace("_", " ") not in row]
    assert missing == [], f"docs/channels/pagerduty.md does not name {missing}"


def test_every_way_in_which_an_incident_ends_is_in_the_table_of_endings() -> None:
    """By the name of its reason."""
    section = (DOCS / "incidents.md").read_text().partition("## How it ends")[2]
    table = section.partition("\n### ")[0]
    missing = [reason for reason in METRIC_AFTER if reason.replace("_", " ") not in table]
    assert missing == [], f"the table of endings in docs/incidents.md lacks {missing}"


def test_the_notes_for_contributors_name_files_that_are_there() -> None:
    """Every file that a recipe names, except those that the reader creates."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`((?:src|docs|tests|bench)/[\w./-]+\.\w+)`", text))
    assert len(named) > 30
    created = re.compile(r"reward_floor|my[_-](?:channel|framework)")
    missing = [name for name in named if not created.search(name) and not (ROOT / name).is_file()]
    assert missing == []


def test_the_incident_of_the_readme_is_what_klarm_says_of_the_recorded_explosion() -> None:
    """Word for word."""
    box = re.search(r"╭─.*?╯", (ROOT / "README.md").read_text(), re.S)
    assert box is not None
    shown = " ".join(re.findall(r"^│ (.*?) *│$", box[0], re.M))
    journal = MemoryJournal()
    watched = Monitor("a", [kind() for kind in CATALOGUE], journal)
    for row in read_recording("exploding"):
        watched.log(row, step=row["step"])
    events = [record for record in journal.records if isinstance(record, Event)]
    first, *lines = event_text(next(e for e in events if e.signal == "kl")).splitlines()
    said = [first.partition(": ")[2], *(line.strip().replace("->", "→") for line in lines)]
    assert shown == " ".join(said)


def test_the_metadata_lead_to_the_project() -> None:
    """Whoever finds the package finds its docs, its source and where to report a problem."""
    declared = (ROOT / "pyproject.toml").read_text().partition("[project.urls]")[2]
    for name in ("Homepage", "Documentation", "Repository", "Issues", "Changelog"):
        assert f'\n{name} = "https://' in declared


def test_links_of_the_readme_work_on_a_package_index() -> None:
    """There is no file next to it: the build makes each link and image absolute."""
    declared = (ROOT / "pyproject.toml").read_text()
    text = (ROOT / "README.md").read_text()
    assert re.search(r"\]\((?!https:)", text)
    for pattern, replacement in re.findall(r"pattern = '(.+)', replacement = '(.+)'", declared):
        text = re.sub(pattern, replacement, text)
    assert re.findall(r"\]\((?!https:)[^)]*\)", text) == []
    images = re.findall(r"!\[[^]]*\]\((.*?)\)", text)
    assert images
    assert all(image.startswith("https://raw.githubusercontent.com/") for image in images)


def test_the_sdist_has_all_that_its_tests_read() -> None:
    """Hatch packs what git does not ignore, unless it is told to include less."""
    assert "[tool.hatch.build.targets.sdist]" not in (ROOT / "pyproject.toml").read_text()


def test_the_detectors_that_need_more_rows_to_confirm_are_named_where_the_default_is() -> None:
    """`confirm_steps` of the section `incidents` does not apply to them."""
    own = {kind.name: kind().confirm_steps for kind in CATALOGUE if kind().confirm_steps}
    assert own
    for page in ("configuration.md", "incidents.md", "without-kl.md"):
        text = (DOCS / page).read_text(encoding="utf-8")
        rows = {
            name: int(rows)
            for names, rows in re.findall(r"((?:`\w+`(?:, | and )?)+) \((\d+)\)", text)
            for name in re.findall(r"\w+", names.replace(" and ", " "))
            if name in own
        }
        assert rows == own, page


def test_the_readme_names_every_target_that_runs_tests_and_ci_runs_them() -> None:
    """A command that people are told to run is one that must pass before a change lands."""
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    targets = re.findall(r"^(test[a-z-]*):", makefile, re.M)
    assert [name for name in targets if f"`make {name}`" not in readme] == []
    (everything,) = re.findall(r"^test-all: (.*) ##", makefile, re.M)
    assert set(everything.split()) == set(targets) - {"test-all"}
    assert re.findall(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(), re.M) == [
        "lint",
        "test-all",
    ]
