"""Soak: `python -m tests.histories --histories 5000 --seed 1`, or `--seed N` alone to replay one."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.histories.generator import generate
from tests.histories.oracle import Violation
from tests.histories.shrink import shrink
from tests.histories.steps import Step, from_json, to_json, to_script
from tests.histories.world import play

CHUNK = 50
TOLD_EVERY = 100
"""Chunks between two lines that tell how far a soak has come."""


def outcome(steps: list[Step]) -> tuple[str, str, Counter[str]]:
    """The rule a history breaks and its sentence, empty when it breaks none, and how often each step was taken."""
    try:
        return "", "", play(steps).counts
    except Violation as violation:
        return violation.rule, str(violation), Counter()


def history(seed: int, without: frozenset[str] = frozenset()) -> list[Step]:
    """The history of a seed, without steps of some kinds and without some settings, which are written NAME=VALUE."""
    steps = []
    for step in generate(seed):
        given = step.args.get("settings", {})
        kept = {k: v for k, v in given.items() if not {k, f"{k}={v}"} & without}
        if step.kind == "settings" and any({k.replace("__", "."), f"{k.replace('__', '.')}={v}"} & without
                                           for k, v in step.args.items()):  # fmt: skip
            continue
        if "unbounded" in without and step.args.get("bounded") is False:
            continue
        if step.kind not in without and str(step.args.get("version")) not in without:
            steps.append(Step(step.kind, {**step.args, "settings": kept} if given else step.args))
    return steps


def run_seeds(seeds: range, without: frozenset[str] = frozenset()) -> list[tuple[int, int, str, str, Counter[str]]]:
    """Seed, steps, rule, sentence and counts of each."""
    found = []
    for seed in seeds:
        steps = history(seed, without)
        try:
            with _quiet():
                found.append((seed, len(steps), *outcome(steps)))
        except Exception as error:
            found.append((seed, len(steps), "simulator", f"{type(error).__name__}: {error}", Counter()))
    return found


def smaller(seed: int, rule: str, without: frozenset[str] = frozenset()) -> list[Step]:
    """The shrunk history of a seed that breaks a rule."""
    with _quiet():
        return shrink(history(seed, without), lambda steps: _rule(steps) == rule)


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is logged or warned of meanwhile, and all is again afterwards."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def _rule(steps: list[Step]) -> str:
    try:
        return outcome(steps)[0]
    except Exception:
        return "simulator"


def soak(histories: int, first: int, workers: int, folder: Path | None, without: frozenset[str]) -> int:
    """Run so many histories from a seed on and print what was found; how many broke a rule."""
    started, broken, counts, steps = time.monotonic(), {}, Counter[str](), 0
    rules: Counter[str] = Counter()
    chunks = [range(at, min(at + CHUNK, first + histories)) for at in range(first, first + histories, CHUNK)]
    with ProcessPoolExecutor(workers) as pool:
        for number, found in enumerate(pool.map(partial(run_seeds, without=without), chunks), 1):
            for seed, length, rule, sentence, kinds in found:
                steps += length
                counts.update(kinds)
                if rule:
                    rules[rule] += 1
                    broken.setdefault(rule, []).append((seed, sentence))
                    print(f"seed {seed} breaks {rule}: {sentence}", flush=True)
            if number % TOLD_EVERY == 0:
                print(f"{number * CHUNK} in {time.monotonic() - started:.0f} s, {rules.total()} broken", flush=True)
        took = time.monotonic() - started
        print(f"{histories} histories of {steps / histories:.1f} steps in {took:.0f} s, seeds {first} to "
              f"{first + histories - 1}, {rules.total()} broken")  # fmt: skip
        print("steps of unbroken ones:", ", ".join(f"{k} {n}" for k, n in counts.most_common()))
        shrunk = (
            pool.map(
                partial(smaller, without=without), *zip(*[(b[0][0], rule) for rule, b in broken.items()], strict=True)
            )
            if broken
            else []
        )
        for (rule, examples), small in zip(broken.items(), shrunk, strict=True):
            print(f"\n{rule}: {rules[rule]} times, seeds {[seed for seed, _ in examples[:10]]}\n  {examples[0][1]}")
            print(to_script(small, rule))
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{rule}-{examples[0][0]}.json").write_text(to_json(small))
    return rules.total()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--histories", type=int, default=0, help="how many, from the seed on; without: replay the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--file", type=Path, help="replay a history from a file")
    parser.add_argument("--folder", type=Path, help="where the shrunk failing histories go")
    parser.add_argument("--shrink", action="store_true", help="of the one that is replayed")
    parser.add_argument("--without", default="", help="kinds of steps and settings to leave out: skew,late.rows=refuse")
    parser.add_argument("--level", choices=["metadata", "spark"], default="metadata")
    options = parser.parse_args()
    without = frozenset(filter(None, options.without.split(",")))
    if options.level == "spark":
        os.environ |= {"SEED": str(options.seed), "SPARK_HISTORIES": str(options.histories or 1)}
        return int(pytest.main(["-q", "tests/histories/test_on_spark.py"]))
    if options.histories:
        return 1 if soak(options.histories, options.seed, options.workers, options.folder, without) else 0
    steps = from_json(options.file.read_text()) if options.file else history(options.seed, without)
    with _quiet():
        rule, sentence, counts = outcome(steps)
        if rule and options.shrink:
            steps = shrink(steps, lambda some: _rule(some) == rule)
    print(to_script(steps, rule))
    print(sentence or f"nothing is broken: {dict(counts)}")
    return 1 if rule else 0


if __name__ == "__main__":
    sys.exit(main())
