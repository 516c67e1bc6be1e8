"""Reads, writes and prunes the baseline that the options or the settings name."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from tuner.check.project_settings import FindingOptions
from tuner.errors import InputError
from tuner.language import _, ngettext
from tuner.render.terminal import plain
from tuner.review.baseline import (
    BaselineFilter,
    KnownFindings,
    as_json,
    entries_of,
    known_in,
    read_baseline,
    without_fixed,
)
from tuner.review.input_findings import FindingLine, InputFindings
from tuner.review.result_store import ResultStore
from tuner.review.review import BaselineComparison, Review
from tuner.writing import write_output

_SHOWN = 20  # entries that are fixed, by name


def write_baseline(file: Path, review: Review) -> str:
    """Write all findings into a baseline.

    Returns:
        What was done, in words.

    Raises:
        InputError: the file cannot be written.
    """
    write_output(file, as_json(entries_of(file.absolute(), review.inputs)))
    count = sum(review.totals.severities.values())
    text = ngettext("{count} finding is known now: {file}", "{count} findings are known now: {file}", count)
    return text.format(count=count, file=plain(str(file)))


def compared_with_baselines(review: Review, options: FindingOptions) -> Review:
    """The review without what the baseline of the options knows, or those that the settings name.

    Raises:
        InputError: a baseline is not there, cannot be read or written, or none is named that could be pruned.
    """
    if options.no_baseline:
        names = []
    else:
        names = [options.baseline] if options.baseline else list(review.totals.baselines)
    if options.prune_baseline and not names:
        raise InputError(_("--prune-baseline: no baseline is named"), hint=_("name it with --baseline FILE"))
    if not names:
        return review
    comparisons = {name: BaselineFilter(Path(name).absolute(), read_baseline(Path(name))) for name in names}

    def new(checked: InputFindings) -> InputFindings:
        name = _named(options, checked)
        return comparisons[name].without_known(checked) if name else checked

    inputs = ResultStore.of(InputFindings, map(new, review.inputs), len(review.inputs))
    results = []
    for name, comparison in comparisons.items():
        result = comparison.result()
        pruned = options.prune_baseline and bool(result.fixed)
        if pruned:
            write_output(Path(name), as_json(without_fixed(read_baseline(Path(name)), result.fixed)))
        results.append(replace(result, file=name, pruned=pruned))
    return replace(review, inputs=inputs, baselines=tuple(results))


class UnknownLines:
    """Tells the findings of one input that no baseline has; it reads each baseline once.

    Args:
        options: which baseline is named, and whether it counts.
    """

    def __init__(self, options: FindingOptions) -> None:
        self._options = options
        self._known: dict[str, KnownFindings] = {}

    def __call__(self, checked: InputFindings) -> tuple[FindingLine, ...]:
        """The findings that are to be fixed: those that a baseline has are accepted, and stay as they are.

        Raises:
            InputError: a baseline cannot be read.
        """
        name = "" if self._options.write_baseline is not None else _named(self._options, checked)
        if not name:
            return checked.lines
        if name not in self._known:
            self._known[name] = known_in(Path(name))
        return self._known[name].new(checked)


def _named(options: FindingOptions, checked: InputFindings) -> str:
    """The baseline of one input; empty where it has none."""
    if options.no_baseline:
        return ""
    return options.baseline or checked.baseline


def in_words(baselines: tuple[BaselineComparison, ...]) -> str:
    """How the findings are beside the baselines; empty where there is none."""
    if not baselines:
        return ""
    return _("beside the baseline {new} new, {unchanged} unchanged, {fixed} fixed").format(
        new=sum(baseline.new for baseline in baselines),
        unchanged=sum(baseline.unchanged for baseline in baselines),
        fixed=sum(known.count for baseline in baselines for known in baseline.fixed),
    )


def fixed_lines(baselines: tuple[BaselineComparison, ...]) -> Iterator[str]:
    """What the baselines know and nobody finds any more, one line each, and what to do about it."""
    for baseline in baselines:
        for known in baseline.fixed[:_SHOWN]:
            text = _("fixed: {path}: {code} {about}") if known.key else _("fixed: {path}: {code}")
            yield plain(text.format(path=known.source, code=known.code, about=known.key))
        if len(baseline.fixed) > _SHOWN:
            yield _("and {count} more").format(count=len(baseline.fixed) - _SHOWN)
        if baseline.fixed:
            text = (
                _("{file} has them no more")
                if baseline.pruned
                else _("{file} still has them: --prune-baseline takes them out")
            )
            yield plain(text.format(file=baseline.file))
