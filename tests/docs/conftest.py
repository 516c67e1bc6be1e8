"""The extensions of the documentation are found as its build finds them."""

import sys

from tests.cli.runner import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
