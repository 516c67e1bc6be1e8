"""How many settings a search goes through in a second; run it by hand, on a quiet machine.

    python tests/benchmarks/plan.py

The processor's seconds of one core, in which the turns of other processes do not count, for all settings of
the two spaces whose work ``tests/plan/test_work.py`` bounds, with nothing remembered from earlier searches.
"""

import gc
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.plan import jobs  # noqa: E402
from tests.plan.test_work import DENSE, SPARSE  # noqa: E402
from tuner.plan.legality import Legality  # noqa: E402
from tuner.plan.search import SettingSearch  # noqa: E402


def main() -> None:
    """Print a line for each space."""
    gc.disable()
    for job in (DENSE, SPARSE):
        reading, space = jobs.reading_of(job), jobs.space(job)
        search = SettingSearch(space, Legality(reading, space), headroom=jobs.HEADROOM)
        begun = time.process_time()
        result = search.run()
        seconds = time.process_time() - begun
        rate = result.looked_at / seconds
        print(f"{job.name}: {result.looked_at} settings in {seconds:.2f} s, {rate:,.0f} a second")


if __name__ == "__main__":
    main()
