"""The expectations on a unit's logs as published: spark-submit verify.py --plan FILE... [--result FILE]."""

from hardpack.cli.spark_submit import run_job
from hardpack.compaction.verify import must_hold

if __name__ == "__main__":
    run_job(lambda hp, plan: must_hold(hp.verify(plan.table, plan.now, plan.partitions)), __doc__)
