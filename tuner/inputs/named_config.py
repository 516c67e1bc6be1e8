"""The configuration that a launch names with ``--config-name`` and ``--config-path``."""

from pathlib import Path

from msgspec.structs import replace

from tuner.errors import Location
from tuner.files import is_there
from tuner.inputs.overrides import option_value
from tuner.inputs.user_input import OpenArgument, Remark, UserInput
from tuner.inputs.yaml_file import read_yaml
from tuner.language import _

_FOLDERS_UP = 8  # above a script, in which a configuration that it names is looked for


def with_config(given: UserInput, folder: Path) -> UserInput:
    """The input laid on the user's own file that ``--config-name`` names, where it can be found."""
    name = option_value(given.arguments, "config_name")
    path = option_value(given.arguments, "config_path")
    if name is None or path is None:
        return given
    relative = Path(path.text.rpartition("$")[2].partition("/")[2] if "$" in path.text else path.text)
    file_name = name.text if name.text.endswith(".yaml") else f"{name.text}.yaml"
    for start in (Path.cwd(), folder, *list(folder.absolute().parents)[:_FOLDERS_UP]):
        file = start / relative / file_name
        if is_there(file, Path.is_file):
            document = read_yaml(file)
            remark = Remark(text=_("laid on {file}").format(file=file), location=name.location)
            return replace(given, document=document, remarks=(*given.remarks, remark))
    return given


def with_missing_config(given: UserInput, name: str) -> UserInput:
    """The input with a configuration among what is open: the launch names it, and no file has it."""
    option = option_value(given.arguments, "config_name")
    missing = OpenArgument(
        key="--config-name",
        text=_("{name}, which was not found here; the trainer's own configuration is taken").format(
            name=name
        ),
        name="",
        location=Location(source=given.source) if option is None else option.location,
    )
    return replace(given, unsettled=(missing, *given.unsettled))
