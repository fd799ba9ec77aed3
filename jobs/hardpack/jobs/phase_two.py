"""Phase two of a unit's logs, or of a table: spark-submit phase_two.py --plan FILE... [--result FILE].

After a pass, whose plan is given, it is of the logs that phase one cleaned; of a table it is of all that is due.
"""

from hardpack.cli import short_life
from hardpack.cli.spark_submit import expire, read_plan_or_table, run_job

if __name__ == "__main__":
    short_life.run(lambda: run_job(expire, __doc__, read_plan_or_table))
