"""A driver ends with the task that asked for it, and its JVM does too."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

DRIVER = "import sys, time; from hardpack.cli.task_process import end_with; end_with(int(sys.argv[1])); time.sleep(60)"
JVM = "import os, subprocess, sys; os.environ['PYSPARK_GATEWAY_PORT'] = '1'; subprocess.run(sys.argv[1:])"
"""Stands for spark-submit's, which starts the driver and waits for it."""


def ends(process, seconds=10):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


@pytest.fixture
def task():
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_driver_and_its_jvm_die_with_the_task_that_was_killed(task):
    jvm = subprocess.Popen([sys.executable, "-c", JVM, sys.executable, "-c", DRIVER, str(task.pid)])
    deadline = time.monotonic() + 10
    while not (children := psutil.Process(jvm.pid).children()) and time.monotonic() < deadline:
        time.sleep(0.05)
    (driver,) = children
    time.sleep(1)
    assert jvm.poll() is None
    assert driver.is_running()
    task.send_signal(signal.SIGKILL)
    assert ends(jvm)
    assert jvm.returncode == -signal.SIGKILL
    psutil.wait_procs([driver], timeout=10)
    assert not psutil.pid_exists(driver.pid) or driver.status() == psutil.STATUS_ZOMBIE


def test_a_driver_whose_task_is_gone_already_does_not_begin(task):
    task.kill()
    task.wait()
    env = {k: v for k, v in os.environ.items() if k != "PYSPARK_GATEWAY_PORT"}
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(task.pid)], env=env)
    assert ends(driver)
    assert driver.returncode == 1


def test_where_the_system_does_not_tell_a_warning_does(task, monkeypatch, caplog):
    from hardpack.cli.task_process import end_with

    def refused(_):
        raise OSError("not here")

    monkeypatch.setattr(os, "pidfd_open", refused)
    end_with(task.pid)
    assert "will not end with its task" in caplog.text
