"""Phase two of the logs that a unit's phase one cleaned: spark-submit phase_two.py --plan FILE... [--result FILE]."""

from hardpack.cli import short_life
from hardpack.cli.spark_submit import run_job

if __name__ == "__main__":
    short_life.run(lambda: run_job(lambda hp, plan: hp.expire_after(plan), __doc__))
