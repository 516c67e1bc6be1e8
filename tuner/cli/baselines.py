"""Reads, writes and prunes the baseline that the options or the settings name."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from tuner.cli.finding_options import FindingOptions
from tuner.cli.judging import Judged
from tuner.errors import InputError, Location
from tuner.language import _, ngettext
from tuner.render.terminal import plain, write
from tuner.review.baseline import Compared, Key, as_json, compare, entries_of, read_baseline
from tuner.review.checked import Line

_SHOWN = 20  # entries that are fixed, by name


class Against(Struct, frozen=True, kw_only=True):
    """The findings of all inputs that no baseline has."""

    new: tuple[tuple[Line, ...], ...]  # of each input
    compared: tuple[tuple[Path, Compared], ...] = ()  # by the file of the baseline

    def words(self) -> str:
        """How the findings are beside the baselines; empty where there is none."""
        if not self.compared:
            return ""
        results = [compared for _file, compared in self.compared]
        return _("beside the baseline {new} new, {unchanged} unchanged, {fixed} fixed").format(
            new=sum(result.count_new for result in results),
            unchanged=sum(result.unchanged for result in results),
            fixed=sum(sum(result.fixed.values()) for result in results),
        )


def write_baseline(file: Path, judged: Sequence[Judged]) -> None:
    """Write all findings into a baseline.

    Raises:
        InputError: the file cannot be written.
    """
    entries = entries_of(file.absolute(), _inputs(judged))
    _write(file, entries)
    count = sum(entries.values())
    text = ngettext(
        "{count} finding is known now, by {file}", "{count} findings are known now, by {file}", count
    )
    write(sys.stderr, text.format(count=count, file=plain(str(file))))


def against_baselines(judged: Sequence[Judged], options: FindingOptions) -> Against:
    """The findings beside the baseline of the options, else beside those of the settings.

    Raises:
        InputError: a baseline is not there, cannot be read or written, or none is named that could be pruned.
    """
    named = None if options.baseline is None else Path(options.baseline)
    files = [named or one.baseline for one in judged]
    if options.prune_baseline and not any(files):
        raise InputError(_("--prune-baseline: no baseline is named"), hint=_("name it with --baseline FILE"))
    new: dict[int, tuple[Line, ...]] = {
        position: one.lines for position, one in enumerate(judged) if files[position] is None
    }
    results = []
    for file in dict.fromkeys(file for file in files if file is not None):
        positions = [position for position, of_input in enumerate(files) if of_input == file]
        mine = [judged[position] for position in positions]
        result = compare(file.absolute(), read_baseline(file), _inputs(mine))
        new |= dict(zip(positions, result.new, strict=True))
        results.append((file, result))
        if options.prune_baseline and result.fixed:
            _write(file, result.kept)
    return Against(new=tuple(new[position] for position in range(len(judged))), compared=tuple(results))


def fixed_lines(against: Against, *, pruned: bool) -> Iterator[str]:
    """What the baselines have and nobody finds any more, one line each, and what to do about it."""
    for file, result in against.compared:
        for path, code, about in list(result.fixed)[:_SHOWN]:
            text = _("fixed: {path}: {code} {about}") if about else _("fixed: {path}: {code}")
            yield plain(text.format(path=path, code=code, about=about))
        if len(result.fixed) > _SHOWN:
            yield _("and {count} more").format(count=len(result.fixed) - _SHOWN)
        if result.fixed:
            text = (
                _("{file} has them no more")
                if pruned
                else _("{file} still has them: --prune-baseline takes them out")
            )
            yield plain(text.format(file=file))


def _inputs(judged: Sequence[Judged]) -> list[tuple[str, Sequence[Line]]]:
    return [(one.source, one.lines) for one in judged]


def _write(file: Path, entries: Mapping[Key, int]) -> None:
    try:
        file.write_text(as_json(entries), encoding="utf-8")
    except OSError as error:
        raise InputError(
            _("the file cannot be written: {reason}").format(reason=error.strerror or error),
            location=Location(source=str(file)),
        ) from None
