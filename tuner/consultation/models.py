"""The models of a job: those that options name, else those of its keys; of unknown ones, what is near."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from tuner.consultation.premises import Premises
from tuner.errors import InputError, Location
from tuner.files import is_there
from tuner.inputs.settings import Settings
from tuner.inputs.tree import contains, dotted, lookup
from tuner.inputs.user_input import OpenArgument, UserInput
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.models import config_file, find_config, find_model, named_within, shape_from_config
from tuner.trainers.protocol import Loaded
from tuner.workload import ServiceRole

_FOLDERS_UP = 8  # above a script, in which the folder of a model that it names is looked for
_MOST_OFFERED = 3
#: Words of a key whose model judges or answers, and is never the one that is trained.
_OF_JUDGE = re.compile(
    r"(?<![A-Za-z])(?:judge|reward|rm|verifier|grader|scorer|teacher|evaluator)(?:s|r)?(?![A-Za-z])",
    re.IGNORECASE,
)


def model_shape(path: str, *, trace: bool) -> ModelShape:
    """The dimensions of a model; with ``trace`` its parameters and activations are counted.

    Raises:
        InputError: nothing is known under this name, or torch or transformers is missing for a trace.
        UnsupportedError: the model is of a type that is not modelled, or cannot be traced.
    """
    if not trace:
        return find_model(path)
    from tuner.trace import trace_model

    return trace_model(find_config(path))


class Models(Struct, frozen=True):
    """The models of one job: those that options name, else those of its keys."""

    given: UserInput
    loaded: Loaded
    premises: Premises

    @property
    def _settings(self) -> Settings:
        return self.loaded.settings

    def actor(self) -> tuple[ModelShape, str]:
        """The policy's model, and why it was taken.

        Raises:
            InputError: none is named, or none is known by the name.
        """
        if self.premises.model is not None:
            shape = self._stated_model("model", self.premises.model)
            return shape, f"{self.premises.source_of('model')}; {_reason(shape)}"
        path = self.loaded.model_path()
        if path is None or self._left_open(self.loaded.model_key) is not None:
            raise self._not_named()
        try:
            shape = self._named(path, self.loaded.model_key)
        except InputError:
            fine_tuned = self._fine_tuned()
            if fine_tuned is None:
                raise
            return fine_tuned
        return shape, _reason(shape)

    def _fine_tuned(self) -> tuple[ModelShape, str] | None:
        """The model that an earlier launch of the script fine-tunes, and why it is taken; None of several.

        What it writes is not here before it has run.
        """
        for launch in self.given.fine_tuned:
            values = [value for word in launch.words if (value := word.partition("=")[2])]
            values = [value for value in values if named_within(value) is not None]
            if len({named_within(value) for value in values}) != 1:
                return None
            shape = model_shape(values[0], trace=self.premises.trace)
            text = _("what {program} ({place}) has trained before; {reason}")
            return shape, text.format(program=launch.name, place=launch.location, reason=_reason(shape))
        return None

    def critic(self) -> ModelShape | None:
        """The critic's model; None where nothing names one.

        Raises:
            InputError: none is known by the name.
        """
        if self.premises.critic_model is not None:
            return self._stated_model("critic_model", self.premises.critic_model)
        path = self.loaded.critic_model_path()
        left_open = self._left_open(self.loaded.critic_model_key)
        if path is not None and left_open is None and path == self.loaded.model_path():
            return self.actor()[0]  # of which --model may say what it is
        if path is None or left_open is None:
            return None if path is None else self._named(path, self.loaded.critic_model_key)
        actors = next((value for value in self.given.unsettled if value.key == self.loaded.model_key), None)
        return self.actor()[0] if actors is not None and actors.text == left_open.text else None

    def _left_open(self, key: str) -> OpenArgument | None:
        """What a launch gives a key that only a run would tell, where no other argument of it does.

        A file that the launch names comes below its arguments, whatever it has.
        """
        if any(argument.text.lstrip("+").startswith(f"{key}=") for argument in self.given.arguments):
            return None
        return next((value for value in self.given.unsettled if value.key == key), None)

    def services(self) -> dict[str, ModelShape]:
        """The models of a reward model and of teachers that are known, by their paths; others are left out.

        Raises:
            InputError: none is known by the name that an option gives.
        """
        models = {}
        for role, path in self.loaded.service_paths():
            named = self.premises.reward_model if role is ServiceRole.REWARD else None
            if named is not None:
                models[path] = self._stated_model("reward_model", named)
                continue
            with suppress(InputError):
                models[path] = model_shape(path, trace=self.premises.trace)
        return models

    def _stated_model(self, name: str, path: str) -> ModelShape:
        """The model that a field of the premises names."""
        return self.premises.read(name, path, partial(model_shape, trace=self.premises.trace))

    def _not_set(self, key: str) -> InputError:
        """The error of a launch that does not name its model; its program may do so, and be unknown."""
        message = _("no model is named")
        hint = self._offer() or _("set this key or give --model NAME")
        program, own = self.given.program, self.loaded.trainer.name
        if program and not program.startswith((f"{own}.", f"{own}/")):
            from tuner.inputs.missing_configuration import unknown_program_text

            if reason := unknown_program_text(self.given):
                message = _("{message}, and {reason}").format(message=message, reason=reason)
                hint = _("{hint}, or a file with all settings of a run").format(hint=hint)
        return InputError(message, key=self._settings.as_reader_takes_it(key) or key, hint=hint)

    def _not_named(self) -> InputError:
        """The error of a launch without a model; a variable that the script does not set is named.

        So is an override of the model that the script has, and that does not reach the trainer.
        """
        key = self.loaded.model_key
        lost = next((one for one in self.given.lost if one.text.lstrip("+").startswith(f"{key}=")), None)
        if lost is not None:
            from tuner.inputs.lost_continuation import lost_continuation  # of few launches

            line, text = lost.command.line, _("the command ends above line {line}: see tuner rule CFG180")
            blank = lost_continuation(self.given)
            if blank is not None:
                line = blank
                text = _("the backslash of line {line} stands before a blank: see tuner rule CFG180")
            return InputError(
                _("the override that names the model never reaches the trainer"),
                location=lost.location,
                key=self._settings.as_reader_takes_it(key) or key,
                hint=text.format(line=line),
            )
        document = self.given.document
        if document is not None and not document.tree and not self.given.arguments:
            return InputError(
                _("the file holds no settings"),
                location=Location(source=document.source, line=1, column=1),
                hint=_("give a configuration, a launch script or a log"),
            )
        left_open = next((value for value in self.given.unsettled if value.key == key), None)
        if left_open is None and self.given.missing is not None:
            from tuner.inputs.missing_configuration import missing_text

            return InputError(
                _("no model is named, and {what}").format(what=missing_text(self.given.missing)),
                location=self.given.missing.location,
                key=self._settings.as_reader_takes_it(key) or key,
                hint=_("give the file, or --model NAME"),
            )
        if left_open is None:
            return self._not_set(key)
        hint = (
            _("give {name}=PATH behind the script, or --model NAME").format(name=left_open.name)
            if left_open.name and _settles(self.given, left_open.name)
            else self._ask_for(left_open)
        )
        message = _("the model is {text}, which only a run would tell")
        if left_open.text.startswith("{"):
            message = _("the model is {text}: the script is a template with values to put in")
        elif "<" in left_open.text:
            message = _("the model is {text}, which is to be filled in")
        message = message.format(text=left_open.text)
        asks = self.given.asked_for is not None and bool(self._arguments(left_open))
        offer = "" if asks else self._offer()  # which model it is, the arguments say
        hint = _("{offer}; {hint}").format(offer=offer, hint=hint) if offer else hint
        return InputError(
            message,
            location=left_open.location,
            key=self._settings.as_reader_takes_it(key) or key,
            hint=hint,
        )

    def _ask_for(self, left_open: OpenArgument) -> str:
        """What to give for a model that no variable names: the arguments of a script that takes some."""
        taken = self.given.asked_for
        use = None if taken is None else taken.use_of(left_open.text)
        if taken is None or use is None:
            return self._arguments(left_open) or _("give --model NAME")
        (line, place), usage = use, taken.usage
        text = _("give the script its arguments, or --model NAME: {line} (line {number})")
        if usage:
            text = _("give the script its arguments, or --model NAME: {line} (line {number}); {usage}")
        return text.format(line=line, number=place.line, usage=usage)

    def _arguments(self, left_open: OpenArgument) -> str:
        """The arguments that nobody gave, of a script that sets the model's variable itself.

        Empty for a script that takes none, and for a variable that it does not set.
        """
        taken, name = self.given.asked_for, left_open.text.lstrip("$").strip("{}")
        if taken is None or not taken.uses or not _is_set_in(self.given.text, name):
            return ""
        uses = [
            _("{line} (line {number})").format(line=line, number=place.line)
            for _name, line, place in taken.uses[:_MOST_OFFERED]
        ]
        text = _("give the script its arguments, or --model NAME: {uses}").format(uses=_("; ").join(uses))
        return _("{text}; {usage}").format(text=text, usage=taken.usage) if taken.usage else text

    def _named(self, path: str, key: str) -> ModelShape:
        """The model of a key; an error says where the key was set, and which other setting names a model."""
        try:
            described = dict(self.given.models).get(path)
            if described is not None:
                return shape_from_config(described, name=Path(path).name, source=self.given.source)
            return model_shape(_path_from_script(self.given.source, path), trace=self.premises.trace)
        except InputError as error:
            origin = self._settings.origin(key)
            message = f"{error.location}: {error.message}" if error.location is not None else error.message
            place = origin.location if origin is not None else None
            critic = key == self.loaded.critic_model_key
            hint = self._offer(critic=critic) or error.hint
            if critic and hint:
                hint = hint.replace(" --model ", " --critic-model ")
            raise InputError(
                message, location=place, key=self._settings.as_reader_takes_it(key) or key, hint=hint
            ) from None

    def _offer(self, *, critic: bool = False) -> str:
        """The models that other settings speak of, each with the option that takes it; empty for none."""
        offer = (
            _("{where} speaks of one: --critic-model {name}")
            if critic
            else _("{where} speaks of one: --model {name}")
        )
        offered: dict[str, str] = {}
        for text, where in self._texts():
            name = named_within(text)
            if name is not None:
                offered.setdefault(name, where)
        if not offered and not critic and self.given.folder:
            from tuner.consultation.spoken_models import spoken_model  # for a message alone

            spoken = spoken_model(Path(self.given.folder), _OF_JUDGE)
            offered = {} if spoken is None else {spoken.name: spoken.where}
        return _("; ").join(
            offer.format(where=where, name=name) for name, where in list(offered.items())[:_MOST_OFFERED]
        )

    def _texts(self) -> Iterator[tuple[str, str]]:
        """What the user wrote that may name a model, with the key or the file that has it."""
        for path in self._settings.origins:
            key = dotted(path)
            value = lookup(self._settings.tree, path) if contains(self._settings.tree, path) else None
            others = self.loaded.names_another_model(key) or _OF_JUDGE.search(key) is not None
            if isinstance(value, str) and not others:
                yield value, key
        yield Path(self.given.source).stem, Path(self.given.source).name


def _reason(shape: ModelShape) -> str:
    if not shape.contained_in:
        return shape.source
    return _("its name stands in {part}; {source}").format(part=shape.contained_in, source=shape.source)


def _path_from_script(source: str, path: str) -> str:
    """The path, from the folder of the script or one above it where the model lies there and not here."""
    script = Path(source).absolute()
    named = Path(path)
    if not path.strip() or named.is_absolute() or path.startswith("~") or is_there(named):
        return path
    for folder in list(script.parents)[: _FOLDERS_UP + 1]:
        if config_file(folder / named) is not None:
            return str(folder / named)
    return path


def _is_set_in(text: str, name: str) -> bool:
    """Whether a script sets a variable somewhere, on a way that its arguments may choose."""
    return name.isidentifier() and re.search(rf"(?m)(?:^|[\s;]){name}=", text) is not None


def _settles(given: UserInput, name: str) -> bool:
    """Whether a variable that is given behind a script reaches the launch, which does not set it itself."""
    if not given.text:
        return True
    from tuner.inputs.script import read_script  # for a message alone

    value = f"/{name}-as-given"
    try:
        script = read_script(Path(given.source), given.text.encode(), (f"{name}={value}",))
    except InputError:
        return True
    return any(value in str(field.text) for launch in script.launches for field in launch.arguments)
