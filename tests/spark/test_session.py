"""What the session is told to keep to itself."""

import pytest

pytestmark = pytest.mark.spark


def test_of_slow_listeners_nothing_is_logged(spark):
    """Spark would log the settings of their job, credentials of the catalog among them."""
    jvm = spark._jvm
    config = getattr(getattr(jvm.org.apache.spark.internal.config, "package$"), "MODULE$")
    assert not spark._jsc.sc().env().conf().get(config.LISTENER_BUS_LOG_SLOW_EVENT_ENABLED())
