"""The expectations on logs of a unit, or on a table: spark-submit verify.py --plan FILE... [--result FILE].

After a pass, whose plan is given, of a large log's clean part a sample is read; of a table all is.
"""

from hardpack.cli import short_life
from hardpack.cli.spark_submit import read_plan_or_table, run_job
from hardpack.compaction.plan import Plan
from hardpack.compaction.verify import must_hold

if __name__ == "__main__":
    short_life.run(
        lambda: run_job(
            lambda hp, work: must_hold(hp.verify(work.table, work.now, work.partitions, sample=isinstance(work, Plan))),
            __doc__,
            read_plan_or_table,
        )
    )
