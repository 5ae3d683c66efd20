"""What the master of a standalone cluster says about its workers and the executors of a job.

Spark's own driver does not ask it: it waits. The message is the one by which Spark's master fills its page.
Rule: for a line that somebody reads; a master that does not answer, or another kind of cluster, is no error.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

STANDALONE: Final = "spark://"


class MasterSeen(NamedTuple):
    """`memory_mb`: what an executor of this job asks for. `starting`: executors that were given and are not there yet.
    `after`: the seconds that were waited before.
    """

    workers: int = 0
    cores: int = 0
    cores_free: int = 0
    most_memory_mb: int = 0
    most_free_mb: int = 0
    memory_mb: int = 0
    starting: int = 0
    ended: int = 0
    answered: bool = False
    after: float = 0.0

    @property
    def too_small(self) -> bool:
        return self.workers > 0 and self.most_memory_mb < self.memory_mb

    def __str__(self) -> str:
        if not self.answered:
            return "the master does not say what it has"
        workers = "1 worker" if self.workers == 1 else f"{self.workers} workers"
        said = f"{workers} alive, {self.cores_free} of {self.cores} cores free"
        if self.workers:
            said += f", up to {self.most_free_mb:,} MB free on one and {self.memory_mb:,} MB needed"
        if self.starting:
            said += f", {self.starting} starting"
        return f"{said}, {self.ended} ended" if self.ended else said


def ask_master(spark: SparkSession) -> MasterSeen:
    master = str(spark.sparkContext.master)
    if not master.startswith(STANDALONE):
        return MasterSeen()
    host, _, port = master.removeprefix(STANDALONE).split(",")[0].rpartition(":")
    try:
        return _asked(spark, host, int(port))
    except (Py4JError, AttributeError, TypeError, ValueError):
        return MasterSeen()


def _asked(spark: SparkSession, host: str, port: int) -> MasterSeen:
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    address = jvm.org.apache.spark.rpc.RpcAddress(host, port)
    there = jvm.org.apache.spark.SparkEnv.get().rpcEnv().setupEndpointRef(address, "Master")
    question = getattr(getattr(jvm.org.apache.spark.deploy, "DeployMessages$RequestMasterState$"), "MODULE$")
    any_answer = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").Any()
    answer = there.askSync(question, any_answer)
    workers = [each for each in answer.workers() if each.isAlive()]
    mine = [each for each in answer.activeApps() if each.id() == spark.sparkContext.applicationId]
    return MasterSeen(
        workers=len(workers),
        cores=sum(each.cores() for each in workers),
        cores_free=sum(each.coresFree() for each in workers),
        most_memory_mb=max((each.memory() for each in workers), default=0),
        most_free_mb=max((each.memoryFree() for each in workers), default=0),
        memory_mb=context.sc().executorMemory(),
        starting=sum(each.executors().size() for each in mine),
        ended=sum(each.removedExecutors().size() for each in mine),
        answered=True,
    )
