"""Compilers, packers, solvers, emulators: what they make of files of the tree, in a moment.

A tool is (its program, its arguments, what it reads or None, the files that it makes). {tree}: the tree; {dir}: a folder of the
test's own, which is the working directory; {cc1}...: programs that a compiler starts. `traced` is probed beside the program's own
functions. Texts to work on: files of this folder."""
import collections
import subprocess

Tool = collections.namedtuple("Tool", "command text made before traced", defaults=(None, (), (), ()))

HERE = "{tree}/tests/torture/zoo"
SQL = """create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i+1 from n where i < 2000)
insert into t select i, printf('%05d', (i * 7919) % 1000), i / 7.0 from n;
create index x on t(b); select b, count(*), round(sum(c), 3) from t group by b % 10 order by 1;
select sum(c), max(b) from t where a < 50; pragma integrity_check;
"""
# One statement per line, as its bootstrap mode reads them.
MARIADB = """create database test;
use test;
create table t(a int primary key, b varchar(40)) engine=InnoDB;
insert into t select i, md5(i) from (with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) select i from n) as s;
select sum(a), max(b), count(*), group_concat(a order by b) from t where b like '%a%' into outfile '{dir}/made.txt';
"""
SMT = "(set-option :random-seed 1)" + "".join(f"(declare-const x{i} Int)(assert (and (> x{i} {i}) (< x{i} {i + 9})))" for i in range(12)) + \
    "(assert (distinct " + " ".join(f"x{i}" for i in range(12)) + "))(assert (= (+ " + " ".join(f"x{i}" for i in range(12)) + \
    ") 120))(check-sat)"
VIDEO = ["-hide_banner", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=160x120:rate=10:duration=1", "-f", "lavfi", "-i",
         "sine=frequency=440:duration=1", "-threads", "2", "-fflags", "+bitexact", "-flags", "+bitexact"]
GDB = ["-q", "-batch", "-nx", "-ex", "break fib", "-ex", "run 1", "-ex", "bt 3", "-ex", "delete", "-ex", "info sharedlibrary libm",
       "-ex", "continue"]
PARI = "print(factor(2^101-1)); print(polroots(x^5-x-1)); iferr(1/0, E, print(E)); print(quadclassunit(-10007).no);\n" \
    "s=0;for(i=1,2000,s+=eulerphi(i));print(s); print(ellap(ellinit([0,0,1,-1,0]),1009))\n"
NINJA = "rule c\\n command = cat $in > $out; echo $out >> $out\\nbuild a: c build.ninja\\nbuild b: c a\\nbuild out: c a b\\n"
DOSBOX = "[cpu]\\ncore=dynamic\\ncycles=max\\n[sdl]\\noutput=surface\\n[mixer]\\nnosound=true\\n" \
    "[autoexec]\\nmount c {dir}\\nc:\\nt.com\\nexit\\n"
JAVA = ["-Xcomp", "-XX:TieredStopAtLevel=1", "-XX:+UseZGC", "-Xmx200m", "-XX:-UsePerfData", "-cp", ".", "Busy", "1"]


def inside(compiler, name):
    """The path of a program that a compiler starts."""
    return subprocess.run([compiler, f"-print-prog-name={name}"], capture_output=True, text=True).stdout.strip()


COMPILE_C = [["gcc", "-E", "-o", "text.i", "{tree}/tests/programs/churn.c"]]
COMPILE_CLANG = [["clang", "-E", "-o", "text.i", "{tree}/tests/programs/churn.c"]]
COMPILE_CC = [["g++", "-E", "-o", "text.ii", HERE + "/compiled/busy.cc"]]
OBJECT = [["g++", "-O1", "-c", "-o", "busy.o", HERE + "/compiled/busy.cc"], ["gcc", "-O1", "-c", "-o", "one.o", HERE + "/compiled/one.c"]]
ONE = ["-o", "made", "one.o", "-e", "main", "--unresolved-symbols=ignore-all", "-Map=map"]

TOOLS = {
    "cc1": Tool([inside("gcc", "cc1"), "-quiet", "-O2", "-g", "text.i", "-o", "made.s"], None, ["made.s"], COMPILE_C),
    "cc1plus": Tool([inside("g++", "cc1plus"), "-quiet", "-O2", "text.ii", "-o", "made.s"], None, ["made.s"], COMPILE_CC),
    "clang": Tool(["clang", "-cc1", "-triple", "x86_64-linux-gnu", "-S", "-O2", "-o", "made.s", "text.i"], None, ["made.s"], COMPILE_CLANG,
                  ["_ZN5clang4Sema*@libclang-cpp.so.14", "_ZN4llvm9Inst*@libLLVM-14.so.1"]),
    "as": Tool(["as", "-o", "made.o", "made.s"], None, ["made.o"], [*COMPILE_C, ["gcc", "-S", "-O2", "-o", "made.s", "text.i"]]),
    "ld.bfd": Tool(["ld.bfd", *ONE], None, ["made", "map"], OBJECT, ["*@libbfd-2.40-system.so"]),
    "ld.gold": Tool(["ld.gold", *ONE], None, ["made", "map"], OBJECT),
    "tcc": Tool(["tcc", "-run", HERE + "/compiled/one.c", "2"]),
    "tcc-compiles": Tool(["tcc", "-c", "-o", "made.o", HERE + "/compiled/one.c"], None, ["made.o"]),
    "nasm": Tool(["nasm", "-f", "elf64", "-o", "made.o", HERE + "/compiled/busy.asm"], None, ["made.o"]),
    "gdb": Tool(["gdb", *GDB, "./one"], None, (), [["gcc", "-g", "-O1", "-o", "one", HERE + "/compiled/one.c"]]),
    "qemu-user": Tool(["qemu-x86_64", "./one", "2"], None, (), [["gcc", "-static", "-O1", "-o", "one", HERE + "/compiled/one.c"]]),
    "qemu-system": Tool(["qemu-system-x86_64", "-machine", "pc,accel=tcg", "-m", "64", "-display", "none", "-nodefaults", "-no-reboot",
                         "-serial", "stdio", "-device", "isa-debug-exit", "-drive", "format=raw,file=boot.bin,if=floppy"], None, (),
                        [["nasm", "-f", "bin", "-o", "boot.bin", HERE + "/compiled/boot.asm"]]),
    "ffmpeg": Tool(["ffmpeg", *VIDEO, "-c:v", "mpeg4", "-c:a", "flac", "-f", "framemd5", "-"], None, (), (),
                   ["av*@libavcodec.so.59", "av*@libavfilter.so.8", "*@libavformat.so.59"]),
    "git": Tool(["git", "-C", "{dir}/repo", "--no-pager", "log", "--stat", "--format=%T %s"], None, (),
                [["sh", "-c", "git init -q repo; cd repo; for n in 1 2 3 4 5; do seq $n 100 > a; git add a; "
                  "git -c user.name=a -c user.email=a@b commit -qm $n; done"]]),
    "git-pack": Tool(["git", "-C", "{dir}/repo", "cat-file", "--batch-check", "--batch-all-objects"], None, (),
                   [["sh", "-c", "git init -q repo; cd repo; for n in 1 2 3 4 5; do seq $n 1000 > a; git add a; "
                     "git -c user.name=a -c user.email=a@b commit -qm $n; done; git gc -q"]]),
    "rsync": Tool(["rsync", "-a", "--delete", "--itemize-changes", HERE + "/", "{dir}/copy/"]),
    "tar": Tool(["tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-cf", "made.tar", "-C", "{tree}/tests/torture", "zoo"], None,
                ["made.tar"]),
    "xz": Tool(["xz", "-T2", "--block-size=65536", "-6c"], "text"),
    "zstd": Tool(["zstd", "-T2", "-9", "-qc", "-"], "text"),
    "busybox": Tool(["busybox", "sh", "-c", "for i in 1 2 3; do echo $i; done | sort -r | md5sum; seq 1 2000 | gzip -c | gunzip -c | tail -n 2"]),
    "sqlite3": Tool(["sqlite3", ":memory:"], SQL),
    "mariadb": Tool(["/usr/sbin/mariadbd", "--no-defaults", "--user=root", "--datadir={dir}/data", "--innodb-buffer-pool-size=8M",
                     "--bootstrap"], MARIADB, ["made.txt"], [["mkdir", "data"]]),
    "z3": Tool(["z3", "-in"], SMT, (), (), ["_ZN3smt7context*@libz3.so.4"]),
    "openssl": Tool(["openssl", "dgst", "-sha3-512", HERE + "/tools.py"], None, (), (), ["*@libcrypto.so.3"]),
    "vim": Tool(["vim", "-Nu", "NONE", "-i", "NONE", "-n", "-es", "-S", HERE + "/scripts/busy.vim", "made.txt"], None, ["made.txt"]),
    "shellcheck": Tool(["shellcheck", "-f", "json", "{tree}/demo/run"]),
    "cmake": Tool(["cmake", "-P", HERE + "/scripts/busy.cmake"]),
    "gprolog": Tool(["gprolog", "--consult-file", HERE + "/scripts/small.pl", "--query-goal", "main"]),
    "gforth": Tool(["gforth", HERE + "/scripts/busy.fs", "-e", "bye"]),
    "bash": Tool(["bash", "-c", "x=0; for i in {1..200}; do x=$(( (x * 31 + i) % 65521 )); s+=$x; done; echo ${#s} $(echo a | tr a b)"]),
    "systemd": Tool(["systemd-analyze", "calendar", "--iterations=3", "--base-time=2020-01-01", "Mon *-*-01 12:00:00"], None, (), (),
                    ["*@libsystemd-shared-252.so"]),
    "mold": Tool(["mold", "-o", "made", "one.o", "-e", "main", "--unresolved-symbols=ignore-all"], None, ["made"], OBJECT),
    "ccache": Tool(["ccache", "gcc", "-O1", "-c", "-o", "made.o", HERE + "/compiled/one.c"], None, ["made.o"]),
    "make": Tool(["make", "-s", "-j4", "-f", HERE + "/scripts/many.mk"], None, ["out"]),
    "ninja": Tool(["ninja", "-j2"], None, ["out"], [["sh", "-c", f"printf '{NINJA}' > build.ninja"]]),
    "ripgrep": Tool(["rg", "-n", "--sort", "path", "static .*\\b(\\w+)_at\\(", "{tree}/src"]),
    "fd": Tool(["fdfind", "-j1", "-e", "py", ".", "{tree}/tests/torture"]),
    "jq": Tool(["jq", "-c", "[.[] | {a: (.a | tostring | length), b: (.b | test(\"x.z\"))}] | group_by(.b) | map(length)"],
               "[" + ",".join(f'{{"a": {i}, "b": "x{"y" * (i % 3)}z"}}' for i in range(30)) + "]", (), (), ["*@libjq.so.1"]),
    "ghostscript": Tool(["gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-r40", "-sDEVICE=ppmraw", "-sOutputFile=made.ppm",
                         "--permit-file-read={tree}/", HERE + "/scripts/picture.ps"], None, ["made.ppm"], (), ["*@libgs.so.10"]),
    "povray": Tool(["povray", "-D", "+I" + HERE + "/scripts/picture.pov", "+Omade.ppm", "+FP", "+W60", "+H45", "+WT2", "-GA"], None, ["made.ppm"]),
    "sox": Tool(["sox", "-R", "-n", "-r", "22050", "made.wav", "synth", "1", "sine", "300-3300", "reverb", "pitch", "200", "vol", "0.5"], None,
                ["made.wav"], (), ["*@libsox.so.3"]),
    "stockfish": Tool(["/usr/games/stockfish"], "bench 16 1 5 default depth\nquit\n"),
    "dosbox": Tool(["dosbox", "-conf", "dosbox.conf", "-noconsole"], None, ["MADE.TXT"],
                   [["nasm", "-f", "bin", "-o", "t.com", HERE + "/scripts/dos.asm"], ["sh", "-c", f"printf '{DOSBOX}' > dosbox.conf"]]),
    "numpy": Tool(["/usr/bin/python3", HERE + "/scripts/matrices.py"], None, (), (),
                  ["*@libopenblas.so.0", "*@_multiarray_umath.cpython-311-x86_64-linux-gnu.so"]),
    "pari": Tool(["gp", "-q", "-f"], PARI),
    "vvp": Tool(["vvp", "circuit.vvp"], None, (), [["iverilog", "-o", "circuit.vvp", HERE + "/scripts/circuit.v"]], ["*@system.vpi"]),
    "duktape": Tool(["duk", HERE + "/scripts/throws.js"]),
    "tcpdump": Tool(["tcpdump", "-Z", "nobody", "-nr", "packets.pcap", "-vv", "udp and greater 60"], None, (),
                    [["python3", HERE + "/scripts/packets.py"]], ["*@libpcap.so"]),
    "java-zgc": Tool(["java", *JAVA], None, (), [["cp", HERE + "/compiled/Busy.java", "."], ["javac", "Busy.java"]], ["*@libjvm.so"]),
}
