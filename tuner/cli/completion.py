"""What a shell offers: names of bundled models, of cards and of rules, and keys of a release."""

from collections.abc import Iterable
from glob import escape
from pathlib import Path
from typing import Any

import typer


def bundled_models(incomplete: str) -> list[str]:
    """Bundled models whose name begins so, in any case."""
    from tuner.models import model_names

    return beginning(model_names(), incomplete)


def cards(incomplete: str) -> list[str]:
    """Cards whose name begins so; a number of them in front, as in ``8xh1``, stays."""
    from tuner.gpus import gpu_names

    count, separator, name = incomplete.partition("x")
    if separator and count.isdigit():
        return [f"{count}x{card}" for card in beginning(gpu_names(), name)]
    return beginning(gpu_names(), incomplete)


def rules(incomplete: str) -> list[str]:
    """Codes, groups of codes and names of rules, also behind a comma."""
    from tuner.render.all_rules import rules_and_modules

    before, comma, begun = incomplete.rpartition(",")
    known = [rule for rule, _module in rules_and_modules()]
    groups = dict.fromkeys(rule.code[:3] for rule in known)
    names = [*groups, *(rule.code for rule in known), *(rule.name for rule in known)]
    return [before + comma + name for name in beginning(names, begun)]


def keys(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Keys of the release that begin so, with ``=``, and what the estimate makes of each.

    The release is that of ``--verl-version``, of the project's settings, or the one that advice rests on.
    Files go before keys: nothing is offered for what begins the name of one, or before an input is named.
    """
    name = incomplete.lstrip("+~")
    mark = incomplete[: len(incomplete) - len(name)]
    if not incomplete or "=" in name or _begins_a_file(incomplete):
        return []
    named = ctx.params.get("config") or ctx.params.get("source") or next(iter(_words(ctx)), "")
    if not named:
        return []
    from tuner.errors import TunerError
    from tuner.trainers.registry import DEFAULT

    try:
        release = DEFAULT.bundled.choose(_release(ctx, named)).version
    except TunerError:  # the command itself will say so
        return []
    offered = () if DEFAULT.catalogue is None else DEFAULT.catalogue.offered_keys(release, name)
    if mark == "~":
        return [(mark + one.key, one.help) for one in offered]
    written = [(f"{mark}{one.key}=", one.help) for one in offered]
    if len(offered) == 1:
        # A shell puts a blank behind what it offers alone, and there is to be a value.
        (one,) = offered
        written.append((f"{mark}{one.key}={one.default}" if one.default else mark + one.key, one.help))
    return written


def _begins_a_file(incomplete: str) -> bool:
    return not Path(incomplete).is_absolute() and any(Path().glob(escape(incomplete) + "*"))


def _words(ctx: typer.Context) -> list[str]:
    words: Any = ctx.params.get("files") or ctx.params.get("inputs") or []
    return list(words)


def _release(ctx: typer.Context, named: str) -> str | None:
    """The release that an option or the settings ask for; None where nobody does.

    Raises:
        InputError: the settings cannot be used.
    """
    release: str | None = ctx.params.get("verl_version")
    if release is not None:
        return release.partition(",")[0]
    from tuner.files import is_there
    from tuner.review.project.project import Named, project_of

    given, isolated = ctx.params.get("given"), ctx.params.get("isolated")
    file = Path(named) if is_there(named, Path.is_file) else None
    setting = project_of(file, Named(given=tuple(given or ()), isolated=bool(isolated))).setting(
        "verl_version"
    )
    return None if setting is None else str(setting.value)


def beginning(names: Iterable[str], incomplete: str) -> list[str]:
    """The names in the case in which they are begun, since a shell leaves out what does not begin so."""
    beginning = [name for name in names if name.lower().startswith(incomplete.lower())]
    return [incomplete + name[len(incomplete) :] for name in beginning]
