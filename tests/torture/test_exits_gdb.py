"""dyntrace trace -e on every function of gdb, with Python in it."""
import os

from test_exits_real import compare

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
