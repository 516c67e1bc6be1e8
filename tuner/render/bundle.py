"""A bundle as a file, and what a person is told of it: what is in it and what was left out."""

from tuner.inputs.record.bundle import Bundle
from tuner.language import _, ngettext
from tuner.render.json_text import json_text
from tuner.render.terminal import Terminal, plain
from tuner.render.words import listed

_MOST_KEYS = 5  # of those left out; the file names all of them


def bundle_json(bundle: Bundle) -> str:
    """The content of the file."""
    return json_text(bundle)


def bundle_text(bundle: Bundle, file: str, terminal: Terminal) -> str:
    """A few lines: the settings, the run, the prediction, and what was hidden."""
    settings = ngettext("{count} setting", "{count} settings", len(bundle.overrides))
    said = ", ".join(f"{name} {value}" for name, value in bundle.premises.items())
    recorded = len(bundle.record) or len(bundle.steps)
    run = (
        ngettext("{count} line of its record", "{count} lines of its record", recorded)
        if bundle.record
        else ngettext("the metrics of {count} step", "the metrics of {count} steps", recorded)
    )
    lines = [
        terminal.style(_("{file}: written").format(file=plain(file)), "bold"),
        _("holds: {settings}; {said}; {run}; the prediction of {phases} phases by tuner {version}").format(
            settings=settings.format(count=len(bundle.overrides)),
            said=said,
            run=run.format(count=recorded),
            phases=len(bundle.predicted),
            version=bundle.tuner_version,
        ),
        _("left out: {hidden}").format(hidden=_hidden(bundle.hidden)),
        _("Look through the file before you send it; tuner accuracy {file} reads it.").format(file=file),
    ]
    first, *others = lines
    return "\n".join([first, *(terminal.prose(plain(line), indent="    ", first="  ") for line in others)])


def _hidden(hidden: tuple[str, ...]) -> str:
    """What was left out: the last entries, which are kinds of things, and some of the keys before them."""
    if not hidden:
        return _("nothing")
    keys = [entry for entry in hidden if " " not in entry]
    kinds = [entry for entry in hidden if " " in entry]
    more = len(keys) - _MOST_KEYS
    shown = keys if more <= 0 else keys[:_MOST_KEYS]
    if more > 0:
        text = ngettext("{count} more setting", "{count} more settings", more)
        shown.append(text.format(count=more))
    return listed([*shown, *kinds])
