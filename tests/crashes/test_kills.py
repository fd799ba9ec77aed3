"""SIGKILL of the driver, its JVM and its Python workers at random times of a pass, each followed by a retry."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.conftest import ROOT
from tests.crashes.history import SHAPES, History
from tests.crashes.test_fault_points import left_behind

pytestmark = [pytest.mark.crashes, pytest.mark.timeout(4 * 3600)]
KILLS = int(os.environ.get("HARDPACK_KILLS", "100"))
SEED = int(os.environ.get("HARDPACK_RANDOM_SEED", "1"))
ROUNDS = 20


class Cleaner:
    """The process, at the beginning of its pass."""

    def __init__(self, plan, lake, folder):
        file = folder / "plan.json"
        file.write_text(plan.to_json())
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crashes.cleaner", str(file), json.dumps(lake)], cwd=ROOT, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout.readline().strip() == "begun"

    def kill(self):
        """Everything of it at once; whether it had not ended by itself."""
        living = self.process.poll() is None
        if living:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return living

    def wait(self):
        started = time.monotonic()
        assert self.process.wait(300) == 0
        return time.monotonic() - started


def plan_of(hp, history):
    history.grow()
    return history.plan(hp)


def test_killed_at_random_times(hp, catalog, lake, tmp_path, capsys):
    rng = random.Random(SEED)
    history = History(catalog, rng, vectors=False)
    length = Cleaner(plan_of(hp, history), lake, tmp_path).wait()
    history.clean_on_paper()
    assert history.differences() == []
    told, wrong, orphans = Counter(), [], Counter()
    while told["killed"] < KILLS:
        if told["runs"] % ROUNDS == ROUNDS - 1:
            orphans.update(left_behind(hp, history))
            history = History(catalog, rng, *SHAPES[told["runs"] // ROUNDS % len(SHAPES)])
        told["runs"] += 1
        plan = plan_of(hp, history)
        before, marks = history.rows(), history.checkpoints()
        cleaner = Cleaner(plan, lake, tmp_path)
        time.sleep(rng.uniform(0, length))
        told["killed"] += cleaner.kill()
        told["had published"] += history.rows() != before
        hp.clean_or_replan(plan)
        hp.expire_after(plan)
        history.clean_on_paper()
        after = history.checkpoints()
        wrong += history.differences()
        wrong += [f"{history.name}/{p} went back" for p in marks if after[p] < marks[p]]
    orphans.update(left_behind(hp, history))
    with capsys.disabled():
        print(f"\n{dict(told)}, a pass takes {length:.1f} s, staged files left behind: {orphans['staged']}")
    assert wrong == []
    assert set(orphans) <= {"staged"}
