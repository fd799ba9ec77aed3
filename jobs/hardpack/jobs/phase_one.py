"""Phase one of a unit: spark-submit phase_one.py --plan FILE... [--result FILE] [--catalog NAME]."""

from hardpack.cli import short_life
from hardpack.cli.spark_submit import run_job

if __name__ == "__main__":
    short_life.run(lambda: run_job(lambda hp, plan: hp.clean_or_replan(plan), __doc__))
