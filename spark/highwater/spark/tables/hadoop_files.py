"""Files where Spark's tables are, by the Hadoop file systems that Spark itself uses."""

import os
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from highwater.model.errors import UnwritableDirectoryError
from highwater.spark.java_gateway import empty_array, hadoop_configuration, java
from highwater.spark.tables.local_lock import local_path

_ENCODING: Final = "UTF-8"
_TAKEN: Final = "FileAlreadyExistsException"


class HadoopFiles:
    """The files below one path, which may name any file system that Spark's settings know.

    Errors of the file system are py4j's `Py4JJavaError`.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self._spark = spark
        self._root = root.rstrip("/")
        self._jvm = java(spark)
        self._conf = hadoop_configuration(spark)
        self._fs: Any = self._path("").getFileSystem(self._conf)

    def names(self, directory: str = "") -> list[str]:
        """Returns the names in a directory, sorted; none if there is no such directory."""
        path = self._path(directory)
        if not self._fs.exists(path):
            return []
        return sorted(str(each.getPath().getName()) for each in self._fs.listStatus(path))

    def read_text(self, name: str) -> str:
        """Returns a file's text."""
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, _ENCODING))
        finally:
            stream.close()

    def write_text(self, name: str, text: str) -> None:
        """Writes a new file."""
        stream = self._fs.create(self._path(name), False)  # Java: do not overwrite.
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def remove(self, directory: str) -> None:
        """Removes a directory with all that is in it; nothing happens if it is not there."""
        self._fs.delete(self._path(directory), True)  # Java: recursively.

    def move_new(self, directory: str, target: str) -> bool:
        """Moves a directory to a name that must be free, at once; returns whether it was free.

        Raises UnwritableDirectoryError if a file system of this machine refuses.
        """
        local = local_path(self._root)
        if local is not None:
            # Hadoop's own rename would move into a directory that is there.
            try:
                os.rename(local / directory, local / target)  # noqa: PTH104 # rename(2) is meant.
            except OSError as error:
                if (local / target).exists():
                    return False
                raise UnwritableDirectoryError(
                    str(local / target), error.strerror or str(error)
                ) from error
            return True
        if self._fs.exists(self._path(target)):
            return False
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._path("").toUri(), self._conf
        )
        options = empty_array(self._spark, self._jvm.org.apache.hadoop.fs.Options.Rename)
        try:
            context.rename(self._path(directory), self._path(target), options)
        except Py4JJavaError as error:
            # Somebody was faster than we looked.
            if _TAKEN in str(error):
                return False
            raise
        return True

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{name}" if name else self._root)
