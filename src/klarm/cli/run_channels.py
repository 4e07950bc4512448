"""The channels of a recorded run, whatever the configuration here says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from klarm.config import Config, recorded_routes
from klarm.delivery import Route, outgoing
from klarm.settings import ConfigError

if TYPE_CHECKING:
    from klarm.runs import RunView


class RunChannels(NamedTuple):
    """The channels to notify of a run."""

    routes: Sequence[Route]
    names: Sequence[str]  # of the channels with which the run was last started
    problem: str = ""  # why channels may be missing here


def channels_of(view: RunView, settings: Config) -> RunChannels:
    """Return the channels to notify of a run.

    These are the channels with which the run was last started, as its journal records them, and
    those that the deliveries name, as they are configured here. A run with `deliver: elsewhere`
    may name no channel: it leaves the choice to `klarm deliver`, so those configured here count.
    """
    if not view.state.processes:
        return RunChannels([], [], "the line of the journal with the channels is damaged")
    recorded = recorded_routes(view.settings)
    names = [route.channel.name for route in recorded]
    if not recorded and view.settings.get("deliver") == "elsewhere":
        here, problem = _configured_here(settings)
        return RunChannels(here, [route.channel.name for route in here], problem)
    used = {entry.channel for entry in view.deliveries} - set(names)
    if not used:
        return RunChannels(recorded, names)
    here, _ = _configured_here(settings)
    return RunChannels([*recorded, *(r for r in here if r.channel.name in used)], names)


def _configured_here(settings: Config) -> tuple[Sequence[Route], str]:
    """Return the channels of a configuration; none and the reason if a secret is missing."""
    try:
        return outgoing.routes_of(settings), ""
    except ConfigError as error:
        return [], str(error)
