"""A process to be killed: one pass of a plan, both phases; says `begun` once its session is up, `done` at the end.

python -m tests.crashes.cleaner PLAN CATALOG_JSON
"""

import json
import sys
from pathlib import Path

from hardpack import Hardpack, Plan

if __name__ == "__main__":
    plan = Plan.from_json(Path(sys.argv[1]).read_text())
    hp = Hardpack.connect("hardpack", json.loads(sys.argv[2]), home=Path(sys.argv[1]).parent)
    hp.spark.sparkContext.parallelize(range(2), 2).count()
    print("begun", flush=True)
    hp.clean(plan)
    hp.expire_after(plan)
    print("done", flush=True)
