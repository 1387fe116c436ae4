"""dyntrace list-symbols, judged by nm, readelf and /proc."""
import json
import os
import re
import shutil
import subprocess

import harness
import pytest

LIBC = os.path.realpath("/lib/x86_64-linux-gnu/libc.so.6")
FILES = ["/usr/bin/redis-server", "/usr/sbin/nginx", os.path.realpath("/usr/bin/python3"), LIBC]
LINE = re.compile(r"0x([0-9a-f]{12,}) +(\d+)  (\S+) +(\S.*)\n?")


def parse(output):
    """{(name, address): size} and the set of modules."""
    found, modules = {}, set()
    for line in output.splitlines()[1:]:  # after the header
        address, size, module, name = LINE.fullmatch(line).groups()
        found[name, int(address, 16)] = int(size)
        modules.add(module)
    return found, modules


def readelf_functions(path, table):
    """{(name, address): size} of the functions in .dynsym or .symtab, as readelf sees them."""
    output = subprocess.run(["readelf", "-W", f"--{table}", path], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in output.splitlines():
        words = line.split()
        if len(words) < 8 or words[3] not in ("FUNC", "IFUNC") or words[6] in ("UND", "ABS"):
            continue
        found[words[7].split("@")[0], int(words[1], 16)] = int(words[2], 0)
    return found


def is_inside_text(path, address, cache={}):
    if path not in cache:
        output = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
        cache[path] = [(int(m[1], 16), int(m[2], 16)) for m in
                       re.finditer(r"LOAD +\S+ (\S+) \S+ \S+ (\S+) +R E", output)]
    return any(start <= address < start + size for start, size in cache[path])


@pytest.mark.parametrize("path", FILES)
def test_every_dynamic_function_is_there(dyntrace, path):
    found, modules = parse(dyntrace("list-symbols", path).stdout)
    expected = readelf_functions(path, "dyn-syms")
    assert len(expected) > 100
    assert modules == {os.path.basename(path)}
    missing = {key for key in expected if key not in found and is_inside_text(path, key[1])}
    assert missing == set()
    wrong = {key: (size, found[key]) for key, size in expected.items() if size and key in found and found[key] != size}
    assert wrong == {}


@pytest.mark.parametrize("name", ["spin", "hello_nopie", "hello_static", "hello_static_pie"])
def test_every_function_of_a_program_with_symbols(dyntrace, program_path, name):
    found, _ = parse(dyntrace("list-symbols", program_path(name)).stdout)
    expected = readelf_functions(program_path(name), "syms")
    assert ("foo" in {key[0] for key in expected})
    assert {key for key in expected if key not in found and is_inside_text(program_path(name), key[1])} == set()


def test_main_of_a_stripped_program(dyntrace):
    found, _ = parse(dyntrace("list-symbols", "/usr/bin/ls", "main").stdout)
    (name, address), = found
    assert name == "main" and is_inside_text("/usr/bin/ls", address) and found[name, address] > 100
    line = dyntrace("list-symbols", "-a", "/usr/bin/ls", "main").stdout.splitlines()[1]
    assert line.split()[3:] == ["function", "entry", "point", "main"]


def test_a_glob_picks(dyntrace):
    everything, _ = parse(dyntrace("list-symbols", "/usr/bin/redis-server").stdout)
    picked, _ = parse(dyntrace("list-symbols", "/usr/bin/redis-server", "process[A-C]*").stdout)
    assert picked == {key: size for key, size in everything.items() if re.match("process[A-C]", key[0])}
    assert "processCommand" in {name for name, _ in picked}


def test_a_running_process_has_addresses_of_its_memory(dyntrace, redis):
    file, _ = parse(dyntrace("list-symbols", "/usr/bin/redis-server").stdout)
    process, modules = parse(dyntrace("list-symbols", redis.pid).stdout)
    first = next(line for line in harness.maps(redis.pid) if line.endswith("/redis-server") or
                 "redis-check" in line)
    base = int(first.split("-")[0], 16)
    assert {(name, address + base) for name, address in file} <= set(process)
    mapped = {os.path.basename(line.split()[5]) for line in harness.maps(redis.pid) if " r-xp " in line and "/" in line}
    assert modules >= {"libc.so.6"} and modules - {"[vdso]", "linux-vdso.so.1"} <= mapped | {"redis-server"}


def test_a_word_is_a_process_before_it_is_a_file(dyntrace, processes, program_path, scratch):
    name = "oddly-named"
    path = os.path.join(scratch, name)
    shutil.copy(program_path("hello_nopie"), path)
    as_file = dyntrace("list-symbols", name, "foo").stdout
    target = harness.Program(processes, path, []).wait_ready()
    try:
        os.unlink(path)
        shutil.copy("/usr/bin/ls", path)
        assert dyntrace("list-symbols", name, "foo").stdout == as_file == dyntrace(
            "list-symbols", target.pid, "foo").stdout
        assert dyntrace.fails("list-symbols", f"./{name}", "foo").startswith(f"no function of './{name}'")
    finally:
        target.finish()


def test_several_processes_of_that_name_are_listed(dyntrace, processes, program_path, scratch):
    """If they run the same file, any of them will do."""
    paths = [os.path.join(scratch, folder, "twin-program") for folder in ("a", "b")]
    for path in paths:
        os.mkdir(os.path.dirname(path))
        shutil.copy(program_path("hello"), path)
    twins = [harness.Program(processes, path, []).wait_ready() for path in (paths[0], paths[0], paths[1])]
    message = dyntrace.fails("list-symbols", "twin-program")
    assert all(str(twin.pid) in message for twin in twins)
    twins.pop().finish()
    assert dyntrace("list-symbols", "twin-program", "foo").stdout.count("foo") == 1
    for twin in twins:
        twin.finish()


def test_json_says_the_same(dyntrace):
    objects = json.loads(dyntrace("list-symbols", "--json", "/usr/bin/redis-server").stdout)
    found, _ = parse(dyntrace("list-symbols", "/usr/bin/redis-server").stdout)
    assert {(one["name"], one["address"]): one["size"] for one in objects} == found
    assert set(objects[0]) == {"address", "size", "module", "name"}
    one, = json.loads(dyntrace("list-symbols", "-a", "--json", "/usr/bin/ls", "main").stdout)
    assert (one["kind"], one["source"], one["module"]) == ("function", "entry point", "ls")


def test_nothing_found(dyntrace):
    assert dyntrace.fails("list-symbols", "/usr/bin/redis-server", "procesCommand").startswith(
        "no function of '/usr/bin/redis-server' is called 'procesCommand' (similar: 'processCommand'")
    assert dyntrace.fails("list-symbols", "/usr/bin/redis-server", "zzz*") == \
        "no function of '/usr/bin/redis-server' matches 'zzz*'"
    assert dyntrace("list-symbols", "--json", "/usr/bin/ls", "zzz*", status=1).stdout == "[]\n"


def test_what_is_no_target(dyntrace, scratch):
    assert dyntrace.fails("list-symbols", "no-such-thing") == "no process and no file is called 'no-such-thing' " \
        "(give a pid, the name of a running program, or a path)"
    assert dyntrace.fails("list-symbols", "/no/file") == "cannot open '/no/file': No such file or directory"
    assert dyntrace.fails("list-symbols", "/etc/passwd") == "/etc/passwd: not an ELF file"
    assert dyntrace.fails("list-symbols", scratch) == f"cannot list '{scratch}': not a regular file"
    fifo = os.path.join(scratch, "fifo")
    os.mkfifo(fifo)
    assert dyntrace.fails("list-symbols", fifo) == f"cannot list '{fifo}': not a regular file"
