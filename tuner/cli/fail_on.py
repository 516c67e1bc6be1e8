"""``tuner advise --fail-on``: whether ``tuner check`` would report a finding that is bad enough."""

from collections.abc import Sequence

from tuner.check.judge import reported
from tuner.cli.baselines import UnknownLines
from tuner.cli.judging import Judging, asked_of
from tuner.cli.project_settings import SettingsNamed
from tuner.consultation.premises import Premises
from tuner.consultation.result import Consultation
from tuner.files import STANDARD_INPUT, is_there
from tuner.findings import Severity
from tuner.inputs.named_inputs import Input


def fails(
    answer: Consultation,
    config: str,
    words: Sequence[str],
    premises: Premises,
    named: SettingsNamed,
    severity: Severity,
) -> bool:
    """Whether a finding is as bad, that the settings ask for and neither a comment nor a baseline accepts.

    Args:
        answer: what was found.
        config: the input as it was named.
        words: what followed it.
        premises: what the options and the settings say.
        named: what the options say of settings.
        severity: the least that counts.

    Raises:
        InputError: something in the settings, or the baseline that they name, cannot be used.
    """
    pasted = config != STANDARD_INPUT and not is_there(config)
    given = Input(config=config, words=tuple(words), pasted=pasted)
    judging = Judging(premises=premises, named=named, fail_on=severity)
    _premises, wanted = asked_of(given, judging)
    found = reported(answer, given, wanted)
    return any(line.at_least(severity) for line in UnknownLines(judging.findings)(found))
