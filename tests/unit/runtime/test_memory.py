import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from highwater.runtime.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytearray(4 << 20)
before = faults()
for _ in range(100):
    bytearray(b"x") * (4 << 20)
print(faults() - before)
"""


def page_faults(mode):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, mode],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return int(ended.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_buffers_are_used_again_without_page_faults():
    assert page_faults("keep") < page_faults("default") / 10
