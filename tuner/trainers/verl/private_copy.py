"""One copy of verl's defaults: its file, what stands in it, and the release that it is of."""

from pathlib import Path as FilePath

from msgspec import Struct

from tuner.inputs.tree import Path, Tree
from tuner.shown_paths import shown_path
from tuner.trainers.verl.fingerprint import Likeness
from tuner.trainers.verl.releases import RELEASES

PACKAGED = ("verl", "trainer", "config")  # the folders in which verl's own package has it


class PrivateDefaults(Struct, frozen=True, kw_only=True):
    """A copy of verl's defaults, and the release that it is most like."""

    file: FilePath
    tree: Tree
    likeness: Likeness
    lacks: tuple[Path, ...] = ()  # sections whose files are not there: its generated form has them

    @property
    def version(self) -> str:
        """The release that it is most like."""
        return self.likeness.version

    @property
    def package(self) -> FilePath:
        """The folder of the package that it lies in, where it lies in one as verl's own does."""
        return self.file.parent.parent.parent

    @property
    def name(self) -> str:
        """What it is called in messages: the package and the folder that holds it, or the file alone."""
        if self.file.parts[-4:-1] == PACKAGED:
            return f"{self.package.parent.name}/{self.package.name}"
        return shown_path(str(self.file))

    @property
    def told_version(self) -> str:
        """What the version file of the verl says that it lies in; empty where it lies in none."""
        from tuner.trainers.verl.version_file import told_version  # where there is a copy

        return told_version(self.package)

    def is_of(self, version: str) -> bool:
        """Whether it is a copy of this bundled release: as its version file says, else as it is most like."""
        told = self.told_version
        return (RELEASES.nearest(told, "").version if told else self.version) == version
