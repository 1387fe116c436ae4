"""Real programs do the same with probes everywhere as without: their output is compared byte for byte.

Every function of the program, and in a second run every instruction of some of its functions, chosen at random: the
seed is printed, DIFFERENTIAL_SEED=N repeats it; DYNTRACE_TORTURE multiplies the number of functions. A probe that is
refused is left out, and there may be few of them.
"""
import os
import random
import re
import shutil
import subprocess

import pytest
from harness import hits

TEXT = "tests/torture/test_differential.py"  # something to work on: it is there, and doesn't change
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i < 400)
insert into t select i, printf('%05d', (i * 7919) % 1000), i / 7.0 from n;
create index x on t(b); select b, count(*), round(sum(c), 3) from t group by b % 10 order by 1;
update t set c = c * 2 where a % 3 = 0; select sum(c), max(b), group_concat(a) from t where a < 50; pragma integrity_check;"""
SHELL = """x=0; for i in {1..200}; do x=$(( (x * 31 + i) % 65521 )); a[i]=$x; s+=$x; done; echo ${#s} ${a[@]}
f() { local y=$1; [ $y -gt 0 ] && f $((y - 1)); return 0; }; f 20; [[ abcabc =~ (abc)+ ]] && echo ${BASH_REMATCH[0]}
case $x in 1*) echo one;; *) echo other;; esac; printf '%08.3f %q\\n' 3.14159 'a b'; echo $(echo nested $(echo twice))"""
PYTHON = """import re, json, zlib, decimal, hashlib
d = {str(i): [i, i * 1.5, {'k': i % 7}] for i in range(200)}
t = json.dumps(d, sort_keys=True); print(zlib.crc32(t.encode()), hashlib.md5(t.encode()).hexdigest())
print(sorted(re.findall(r'[0-9]+', t), key=lambda s: (len(s), s))[:50], decimal.Decimal(2).sqrt())
def g(n): return n if n < 2 else g(n - 1) + g(n - 2)
print(g(12), [x async for x in ()] if False else sum(i * i for i in range(99)))
try: 1 / 0
except ZeroDivisionError as e: print(e)"""
PERL = r"""my %h; $h{$_ % 17} .= chr(65 + $_ % 26) for 1..500; print "$_=$h{$_}\n" for sort { $a <=> $b } keys %h;
my $s = join ",", map { $_ * 3 } grep { /1|7/ } 1..300; $s =~ s/(\d)(\d)/$2$1/g; print $s, "\n"; printf "%.6f %s\n", atan2(1, 1), scalar reverse "abc";"""

# program, its arguments, what it reads
WORK = {
    "bash": (["-c", SHELL], None),
    "python3": (["-c", PYTHON], None),
    "perl": (["-e", PERL], None),
    "sqlite3": ([":memory:"], SQL),
    "git": (["--no-pager", "log", "--no-color", "--stat", "-n", "3"], None),
    "awk": (["{ n[length($0)]++; s += NF } END { for (i = 0; i < 130; i++) printf \"%d:%d \", i, n[i]; print s }", TEXT], None),
    "sort": (["-t", " ", "-k", "2r", "-u", TEXT], None),
    "grep": (["-nE", "([a-z]+)_[a-z]+|^ +(def|for)", TEXT], None),
    "sed": (["-E", "s/([a-z]+) ([a-z]+)/\\2 \\1/g; y/abc/xyz/; 3,9d", TEXT], None),
    "gzip": (["-9nc", TEXT], None),
    "xz": (["-T1", "-6ec", TEXT], None),
    "bzip2": (["-9c", TEXT], None),
    "zstd": (["-19", "-qc", "--single-thread", TEXT], None),
    "openssl": (["dgst", "-sha512", TEXT], None),
    "bc": (["-l"], "scale=60; a(1)*4; e(1); for (i = 0; i < 40; i++) i^i % 10007; sqrt(2)\n"),
    "jq": (["[.[] | {a: (.n * 2), b: (.s | ascii_upcase)}] | sort_by(.b) | map(select(.a > 4))"],
           "[" + ",".join(f'{{"n":{i},"s":"v{i * 7 % 31}"}}' for i in range(80)) + "]"),
    "find": (["tests/unit", "-name", "test_*.c", "-size", "+1k", "-printf", "%f %s\n"], None),
    "tar": (["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-cf", "-", "tests/torture/conftest.py", TEXT], None),
    "diff": (["-u", "tests/torture/conftest.py", TEXT], None),
    "objdump": (["-d", "--no-show-raw-insn", "/bin/true"], None),
    "readelf": (["-aW", "/bin/true"], None),
    "factor": (["1152921504606846883", "340282366920938463463374607431768211297", "600851475143"], None),
    "sha256sum": ([TEXT, "tests/torture/conftest.py"], None),
    "as": (["-al", "-o", "/dev/null", "-"], "f: push %rbx; mov %rdi, %rbx; lea 8(%rip), %rax; jne f; vaddps %ymm1, %ymm2, %ymm3; ret\n"),
    "xmllint": (["--format", "-"], "<a>" + "".join(f"<b c='{i}'>t{i}</b>" for i in range(60)) + "</a>"),
}
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))
FUNCTIONS = int(os.environ.get("DIFFERENTIAL_FUNCTIONS") or max(200 * FACTOR, 10))
SEED = int(os.environ.get("DIFFERENTIAL_SEED", random.randrange(10**6)))


class Work:
    def __init__(self, name):
        self.path = shutil.which(name, path="/usr/bin:/bin")
        if not self.path:
            pytest.skip(f"{name} isn't installed")
        self.path = os.path.realpath(self.path)
        self.arguments, self.text = WORK[name]
        self.module = os.path.basename(self.path)

    def run(self, before=()):
        return subprocess.run([*before, self.path, *self.arguments], cwd=ROOT, capture_output=True, timeout=600,
                              input=(self.text or "").encode(), env={**os.environ, "LC_ALL": "C", "PYTHONHASHSEED": "0"})


def traced(dyntrace, work, what, leave_out=0):
    """The program's output with these probes; those that are refused are left out, up to that many."""
    plain = work.run()
    assert plain.returncode in (0, 1), plain.stderr
    for _ in range(leave_out + 1):
        words = [word for location in what for word in ("--probe", location)]
        result = work.run([dyntrace.path, "trace", "-o", dyntrace.new_output(), *words, "--"])
        refused = re.search(rb"cannot probe '([^']*)'", result.stderr)
        if result.returncode != 125 or not refused:
            break
        what = [location for location in what if location.split("@")[0] != refused[1].decode()]
    assert result.returncode == plain.returncode, result.stderr[-2000:]
    assert result.stdout == plain.stdout
    return result.stderr.decode(errors="replace")


def instructions(dyntrace, path):
    """By function, the addresses of its instructions; without those that can't be placed."""
    functions = {}
    for line in subprocess.run([dyntrace.path, "coverage", "--list", path], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        address, tactic, name = line.split(" ", 2)
        if tactic != "refused":
            functions.setdefault(name, []).append(address)
    return functions


@pytest.mark.parametrize("name", WORK)
def test_every_function(dyntrace, name):
    work = Work(name)
    report = traced(dyntrace, work, [f"*@{work.module}"])
    assert int(re.search(r"(\d+) events", report)[1]) > 0


@pytest.mark.parametrize("library", ["libc.so.6", "libcrypto.so.3"])
@pytest.mark.parametrize("name", ["bash", "openssl", "perl", "sort"])
def test_every_function_of_a_library(dyntrace, name, library):
    work = Work(name)
    if library not in subprocess.run(["ldd", work.path], capture_output=True, text=True).stdout:
        pytest.skip(f"{name} doesn't use it")
    traced(dyntrace, work, [f"*@{library}"])


def every_instruction(dyntrace, work):
    functions = instructions(dyntrace, work.path)
    print(f"DIFFERENTIAL_SEED={SEED}")
    chosen = random.Random(SEED).sample(sorted(functions), min(FUNCTIONS, len(functions)))
    what = [f"{address}@{work.module}" for function in chosen for address in functions[function]]
    traced(dyntrace, work, what[:30000], leave_out=40)


@pytest.mark.parametrize("name", WORK)
def test_every_instruction(dyntrace, name):
    every_instruction(dyntrace, Work(name))


QUERIES = """select count(*), sum(oid::bigint % 97) from pg_proc where proname like '%in%'
create temp table t(a int, b text)
insert into t select i, md5(i::text) from generate_series(1, 3000) i
create index on t(b)
select b, a from t where b like 'a%' order by b limit 20
select a % 7, count(*), avg(a)::numeric(10,3), string_agg(b, ',' order by b) from t where a < 60 group by 1 order by 1
with recursive f(n, a, b) as (values (1, 0::numeric, 1::numeric) union all select n + 1, b, a + b from f where n < 90) select max(a) from f
select regexp_replace('the quick brown fox', '(\\w+) (\\w+)', '\\2 \\1', 'g'), to_char(date '2020-02-29' + 366, 'YYYY-MM-DD day')
select x.a + y.a from t x join t y on x.b = y.b where x.a % 100 = 0 order by 1
select jsonb_pretty(jsonb_agg(jsonb_build_object('k', a, 'v', b))) from t where a < 6
"""
POSTGRES = "/usr/lib/postgresql"


class Postgres(Work):
    """A server for a single user that reads commands, with files of its own; it doesn't run as root."""

    def __init__(self, scratch):
        versions = os.listdir(POSTGRES) if os.path.isdir(POSTGRES) else []
        if not versions or os.getuid() != 0 or not any(line.startswith("postgres:") for line in open("/etc/passwd")):
            pytest.skip("postgres isn't installed, or can't be run as its own user")
        folder = os.path.join(POSTGRES, max(versions), "bin")
        self.path, self.module = os.path.join(folder, "postgres"), "postgres"
        shutil.chown(scratch, "postgres")
        files = os.path.join(scratch, "files")
        subprocess.run([*self.USER, os.path.join(folder, "initdb"), "-D", files, "--no-sync", "--locale=C"], check=True,
                       stdout=subprocess.DEVNULL)
        self.arguments, self.text = ["--single", "-D", files, "template1"], QUERIES

    USER = ["runuser", "-u", "postgres", "--"]

    def run(self, before=()):
        return super().run([*self.USER, *before])


def test_every_function_of_postgres(dyntrace, scratch):
    report = traced(dyntrace, Postgres(scratch), ["*@postgres"])
    assert int(re.search(r"(\d+) events", report)[1]) > 0


def test_every_instruction_of_postgres(dyntrace, scratch):
    every_instruction(dyntrace, Postgres(scratch))


MOUNT = "mount -t tracefs tracefs /sys/kernel/tracing && echo mounted && read nothing"  # where only it sees that
COUNTED = ["xmalloc", "hash_search", "find_variable", "execute_command_internal", "dispose_word"]


def write(path, text):
    """Without emptying it, which would take away what others have there."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def uprobe_hits(tracefs, work, places):
    """How often the kernel's own probes at these places of the file are hit."""
    placed = []
    try:
        for name, offset in places.items():
            write(f"{tracefs}/uprobe_events", f"p:dyntrace_test/{name} {work.path}:{offset:#x}\n")
            placed.append(name)
        write(f"{tracefs}/events/dyntrace_test/enable", "1")
        assert work.run().returncode == 0
        write(f"{tracefs}/events/dyntrace_test/enable", "0")
        with open(f"{tracefs}/uprobe_profile") as profile:
            lines = [line.split() for line in profile]
        return {line[1]: int(line[2]) for line in lines if line[1] in places}
    finally:
        for name in placed:
            write(f"{tracefs}/uprobe_events", f"-:dyntrace_test/{name}\n")


def test_hits_are_those_of_uprobes(dyntrace, processes, scratch):
    holder = processes.start(["unshare", "--mount", "sh", "-c", MOUNT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True)
    if holder.stdout.readline() != "mounted\n":
        pytest.skip("tracefs can't be mounted")
    tracefs = f"/proc/{holder.pid}/root/sys/kernel/tracing"
    work = Work("bash")
    work.path = shutil.copy(work.path, scratch)  # the kernel counts hits of all processes that run the file
    listed = subprocess.run([dyntrace.path, "list-symbols", work.path], capture_output=True, text=True, check=True).stdout
    places = {line.split()[3]: int(line.split()[0], 16) for line in listed.splitlines() if line.split()[3] in COUNTED}
    assert len(places) == len(COUNTED)
    report = traced(dyntrace, work, [f"{name}@{work.module}" for name in COUNTED])
    counted = {name: hits(report, name) for name in COUNTED}
    assert counted == uprobe_hits(tracefs, work, places)
    assert all(counted.values())
