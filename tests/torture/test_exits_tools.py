"""dyntrace trace -e on every function of gdb, with Python in it, and of cmake and libstdc++."""
import os

import pytest

from test_exits_real import compare

CMAKE = """
cmake_minimum_required(VERSION 3.10)
project(x NONE)
foreach(i RANGE 20)
  string(REGEX REPLACE "a" "b" out "aaa${i}")
  list(APPEND all ${out})
endforeach()
message(STATUS "all ${all}")
"""

GDB = """
python
try:
    gdb.parse_and_eval("nosuch")
except gdb.error as error:
    print("caught", error)
end
p 1+2*3
p $_siginfo
"""


def test_gdb(dyntrace, scratch):
    script = os.path.join(scratch, "script.gdb")
    with open(script, "w") as file:
        file.write(GDB)
    compare(dyntrace, ["gdb", "-nx", "-batch", "-x", script], "*")


@pytest.mark.limit(150)
def test_cmake(dyntrace, scratch):
    source = os.path.join(scratch, "source")
    os.mkdir(source)
    with open(os.path.join(source, "CMakeLists.txt"), "w") as file:
        file.write(CMAKE)
    compare(dyntrace, ["cmake", "-S", "source", "-B", "build", "--fresh"], "*", "*@libstdc++.so.6", cwd=scratch)
