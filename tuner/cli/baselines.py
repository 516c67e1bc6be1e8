"""Reads, writes and prunes the baseline that the options or the settings name."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from tuner.cli.finding_options import FindingOptions
from tuner.errors import InputError, Location
from tuner.language import _, ngettext
from tuner.render.terminal import plain
from tuner.review.baseline import Key, as_json, compare, entries_of, known_in, read_baseline
from tuner.review.checked import BesideBaseline, Checked, Line, Review

_SHOWN = 20  # entries that are fixed, by name


def write_baseline(file: Path, review: Review) -> str:
    """Write all findings into a baseline.

    Returns:
        What was done, in words.

    Raises:
        InputError: the file cannot be written.
    """
    entries = entries_of(file.absolute(), review.inputs)
    _write(file, entries)
    count = sum(entries.values())
    text = ngettext("{count} finding is known now: {file}", "{count} findings are known now: {file}", count)
    return text.format(count=count, file=plain(str(file)))


def beside_baselines(review: Review, options: FindingOptions) -> Review:
    """The review without what the baseline of the options knows, or those that the settings name.

    Raises:
        InputError: a baseline is not there, cannot be read or written, or none is named that could be pruned.
    """
    files = [_named(options, checked) for checked in review.inputs]
    if options.prune_baseline and not any(files):
        raise InputError(_("--prune-baseline: no baseline is named"), hint=_("name it with --baseline FILE"))
    inputs: dict[int, Checked] = dict(enumerate(review.inputs))
    results = []
    for name in dict.fromkeys(filter(None, files)):
        positions = [position for position, of_input in enumerate(files) if of_input == name]
        file = Path(name).absolute()
        result = compare(file, read_baseline(Path(name)), [inputs[position] for position in positions])
        inputs |= dict(zip(positions, result.inputs, strict=True))
        pruned = options.prune_baseline and bool(result.beside.fixed)
        if pruned:
            _write(file, result.kept)
        results.append(replace(result.beside, file=name, pruned=pruned))
    return replace(review, inputs=tuple(inputs.values()), baselines=tuple(results))


def unknown_lines(options: FindingOptions) -> Callable[[Checked], tuple[Line, ...]]:
    """A function that gives the findings of one input that no baseline has, each baseline read once.

    It raises :class:`~tuner.errors.InputError` where a baseline cannot be read.
    """
    read = cache(known_in)

    def unknown(checked: Checked) -> tuple[Line, ...]:
        name = "" if options.write_baseline is not None else _named(options, checked)
        return read(Path(name)).new(checked) if name else checked.lines

    return unknown


def _named(options: FindingOptions, checked: Checked) -> str:
    """The baseline of one input; empty where it has none."""
    if options.no_baseline:
        return ""
    return options.baseline or checked.baseline


def in_words(baselines: tuple[BesideBaseline, ...]) -> str:
    """How the findings are beside the baselines; empty where there is none."""
    if not baselines:
        return ""
    return _("beside the baseline {new} new, {unchanged} unchanged, {fixed} fixed").format(
        new=sum(beside.new for beside in baselines),
        unchanged=sum(beside.unchanged for beside in baselines),
        fixed=sum(known.count for beside in baselines for known in beside.fixed),
    )


def fixed_lines(baselines: tuple[BesideBaseline, ...]) -> Iterator[str]:
    """What the baselines know and nobody finds any more, one line each, and what to do about it."""
    for beside in baselines:
        for known in beside.fixed[:_SHOWN]:
            text = _("fixed: {path}: {code} {about}") if known.key else _("fixed: {path}: {code}")
            yield plain(text.format(path=known.source, code=known.code, about=known.key))
        if len(beside.fixed) > _SHOWN:
            yield _("and {count} more").format(count=len(beside.fixed) - _SHOWN)
        if beside.fixed:
            text = (
                _("{file} has them no more")
                if beside.pruned
                else _("{file} still has them: --prune-baseline takes them out")
            )
            yield plain(text.format(file=beside.file))


def _write(file: Path, entries: Mapping[Key, int]) -> None:
    try:
        file.write_text(as_json(entries), encoding="utf-8")
    except OSError as error:
        raise InputError(
            _("the file cannot be written: {reason}").format(reason=error.strerror or error),
            location=Location(source=str(file)),
        ) from None
