"""Phase two of a unit's logs at the plan's time: spark-submit phase_two.py --plan FILE [--result FILE]."""

from hardpack.job import run_job

if __name__ == "__main__":
    run_job(lambda hp, plan: hp.expire_tombstones(plan.table, plan.now, [p.partition for p in plan.logs]), __doc__)
