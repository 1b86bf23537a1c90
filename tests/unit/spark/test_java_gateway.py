"""What of PySpark's inside the gateway is made of."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="needs the spark extra")

from highwater.spark.java_gateway import empty_array, hadoop_configuration, java, java_session


def test_names_of_pyspark() -> None:
    context = SimpleNamespace(
        _jvm="packages",
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: "settings"),
        _gateway=SimpleNamespace(new_array=lambda kind, size: (kind, size)),
    )
    spark = SimpleNamespace(sparkContext=context, _jsparkSession="session")
    assert (java(spark), hadoop_configuration(spark)) == ("packages", "settings")
    assert java_session(spark) == "session"
    assert empty_array(spark, "class") == ("class", 0)
