"""Plan every job that the calculator's page has answers for, and keep the answers.

``python -m docs.tools.plan_points`` plans all of them anew, in some twenty minutes on an idle core;
``--missing`` plans only those that the file has not yet. Each answer is kept as soon as it is there.
"""

import argparse
import sys

from docs.tools.program import ROOT


def main() -> None:
    """Write the file."""
    sys.path.insert(0, str(ROOT / "docs" / "_ext"))  # as the site's build has it
    from calculator import planned

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="keep the answers that there are")
    kept = {planned.job_of(one): one for one in planned.read()}
    done = dict(kept) if parser.parse_args().missing else {}
    for job in planned.jobs():
        if job not in done:
            done[job] = planned.planned(job)
            planned.write(list({**kept, **done}.values()))
            print(*(getattr(job, name) for name in job.__struct_fields__), flush=True)


if __name__ == "__main__":
    main()
