"""Flight SQL's JDBC driver in a JVM of its own, driven from here: no Java is compiled."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from prove.lab.rest_catalog import TEST_LOCK
from servers.environment import FRUGAL_OPTIONS, java_home
from servers.jars import jar_paths

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def jdbc() -> Iterator[Any]:
    """Give what connects: a function of a JDBC address and its properties."""
    (gateway_jar,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    class_path = os.pathsep.join(map(str, (gateway_jar, *jar_paths("flight", lock=TEST_LOCK))))
    command = [str(java_home() / "bin" / "java"), "-Xmx256m", *FRUGAL_OPTIONS]
    command += ["--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", class_path, "py4j.GatewayServer", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as jvm:
        try:
            assert jvm.stdout is not None
            # Objects that are let go of later than the JVM would be told to nobody, and loudly.
            parameters = GatewayParameters(port=int(jvm.stdout.readline()), enable_memory_management=False)
            gateway = JavaGateway(gateway_parameters=parameters)

            def connected(address: str, **said: str) -> Any:
                properties = gateway.jvm.java.util.Properties()
                for name, value in {"useEncryption": "false", **said}.items():
                    properties.setProperty(name, value)
                url = f"jdbc:arrow-flight-sql://{address}"
                return gateway.jvm.java.sql.DriverManager.getConnection(url, properties)

            yield connected
            gateway.close()
        finally:
            jvm.kill()


def rows_of(result: Any) -> list[list[Any]]:
    """All rows of a result set, which is closed."""
    count = result.getMetaData().getColumnCount()
    rows = []
    while result.next():
        rows.append([result.getObject(column + 1) for column in range(count)])
    result.close()
    return rows
