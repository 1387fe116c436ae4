"""What lives in the zoo: a program text per language, how it is built and run, and what of it is traced.

A text does the same work in each round, says one line per round, and ends after as many rounds as its last word says, or when
there is a file `stop`: the same text runs for a moment, and for as long as it is attached to and left."""
import collections
import os

HERE = os.path.dirname(os.path.abspath(__file__))

# text: a file of scripts/ or compiled/; build: commands before the first run; command: without the number of rounds;
# traced: what is probed beside the program's own functions; calls: {function: calls per round}, where the text tells it;
# env: more environment; jit: maps and unmaps code of its own; slow: how many of its rounds are one of the others'
Animal = collections.namedtuple("Animal", "text build command traced calls env jit", defaults=((), (), {}, {}, False))

TREES = {9: 2 ** 10 - 1, 10: 2 ** 11 - 1, 12: 2 ** 13 - 1}  # calls of a function that walks a tree of that depth
ERLANG = "/usr/lib/erlang"


def erlang():
    """beam.smp without the shell script and the launcher before it."""
    folder = next((name for name in sorted(os.listdir(ERLANG)) if name.startswith("erts-")), "erts") \
        if os.path.isdir(ERLANG) else "erts"
    place = f"{ERLANG}/{folder}/bin"
    return Animal("scripts/busy.erl", [["erlc", "busy.erl"]],
                  [f"{place}/beam.smp", "--", "-root", ERLANG, "-bindir", place, "-progname", "erl", "-home", "/tmp", "--", "-noshell", "-pa", ".",
                   "-s", "busy", "main", "-extra"],
                  env={"ROOTDIR": ERLANG, "BINDIR": place, "EMU": "beam", "PROGNAME": "erl"}, jit=True)


def r():
    home = "/usr/lib/R"
    return Animal("scripts/busy.R", (), [f"{home}/bin/exec/R", "--no-echo", "--no-restore", "--file=busy.R", "--args"],
                  ["*@libR.so"], env={"R_HOME": home, "LD_LIBRARY_PATH": f"{home}/lib", "R_ARCH": ""})


ANIMALS = {
    "c++": Animal("compiled/busy.cc", [["g++", "-O2", "-pthread", "busy.cc", "-o", "busy"]], ["./busy"],
                  calls={"thrower": 4 * 50 * 11}),
    "c++-clang": Animal("compiled/busy.cc", [["clang++", "-O2", "-fno-inline", "-pthread", "busy.cc", "-o", "busy"]], ["./busy"],
                        calls={"thrower": 4 * 50 * 11, "build": 4 * TREES[9]}),
    "c++-static": Animal("compiled/busy.cc", [["g++", "-O2", "-static", "-pthread", "busy.cc", "-o", "busy"]], ["./busy"],
                         calls={"thrower": 4 * 50 * 11}),
    "chicken": Animal("compiled/rounds.scm", [["csc", "-O2", "-d0", "rounds.scm", "-o", "busy"]], ["./busy"], ["*@libchicken.so.11"]),
    "gambit": Animal("compiled/rounds.scm", [["gsc", "-exe", "-o", "busy", "rounds.scm"]], ["./busy"], ["*@libgambit.so.4"]),
    "nim": Animal("compiled/busy.nim", [["nim", "c", "-d:release", "--hints:off", "--nimcache:cache", "-o:busy", "busy.nim"]], ["./busy"]),
    "ada": Animal("compiled/busy.adb", [["gnatmake", "-q", "-gnat2012", "-O1", "busy.adb"]], ["./busy"]),
    "crystal": Animal("compiled/busy.cr", [["crystal", "build", "busy.cr"]], ["./busy"]),
    "d-gdc": Animal("compiled/busy.d", [["gdc", "-O1", "-fno-inline", "busy.d", "-o", "busy"]], ["./busy"],
                    calls={"_D4busy5buildFiZCQp4Node": 4 * TREES[9]}),
    "d-ldc": Animal("compiled/busy.d", [["ldc2", "-O1", "busy.d"]], ["./busy"]),
    "fortran": Animal("compiled/busy.f90", [["gfortran", "-O1", "busy.f90", "-o", "busy"]], ["./busy"]),
    "go": Animal("compiled/busy.go", [["/usr/bin/go", "build", "-o", "busy", "busy.go"]], ["./busy"], env={"GO111MODULE": "off", "HOME": "/tmp"}),
    "haskell": Animal("compiled/busy.hs", [["ghc", "-v0", "-O1", "busy.hs"]], ["./busy"]),
    "haskell-threaded": Animal("compiled/busy.hs", [["ghc", "-v0", "-g", "-O1", "-threaded", "-with-rtsopts=-N2", "busy.hs"]], ["./busy"]),
    "java": Animal("compiled/Busy.java", [["javac", "Busy.java"]], ["java", "-Xmx200m", "-XX:-UsePerfData", "-cp", ".", "Busy"],
                   ["*@libjvm.so", "*@libjava.so"], jit=True),
    "mono": Animal("compiled/busy.cs", [["mcs", "-out:busy.exe", "busy.cs"]], ["mono", "busy.exe"], jit=True),
    "mono-aot": Animal("compiled/busy.cs", [["mcs", "-out:busy.exe", "busy.cs"], ["mono", "--aot", "busy.exe"]], ["mono", "busy.exe"],
                       ["*@busy.exe.so"], jit=True),
    "ocaml": Animal("compiled/rounds.ml", [["ocamlopt", "rounds.ml", "-o", "busy"]], ["./busy"]),
    "pascal": Animal("compiled/busy.pas", [["fpc", "-v0", "-O1", "-Xs-", "busy.pas"]], ["./busy"],
                     calls={"P$BUSY_$$_SUM$PNODE$$LONGINT": TREES[12], "P$BUSY_$$_BUILD$LONGINT$$PNODE": TREES[12]}),
    "rust": Animal("compiled/busy.rs", [["/usr/bin/rustc", "-O", "busy.rs"]], ["./busy"], calls={"busy::build": 4 * TREES[10]}),
    "awk": Animal("scripts/busy.awk", (), ["gawk", "-f", "busy.awk"]),
    "busybox-awk": Animal("scripts/busy.awk", (), ["busybox", "awk", "-f", "busy.awk"]),
    "chez": Animal("scripts/busy.ss", (), ["chezscheme", "--script", "busy.ss"]),
    "clisp": Animal("scripts/busy.lisp", (), ["/usr/lib/clisp-2.49.93+/base/lisp.run", "-M", "/usr/lib/clisp-2.49.93+/base/lispinit.mem",
                                              "-norc", "busy.lisp"]),
    "ecl": Animal("scripts/busy.lisp", (), ["ecl", "--norc", "--shell", "busy.lisp", "--"], ["*@libecl.so.21.2"]),
    "emacs": Animal("scripts/busy.el", (), ["emacs-nox", "-Q", "--batch", "-l", "busy.el"]),
    "erlang": erlang(),
    "guile": Animal("scripts/busy.scm", (), ["guile-3.0", "--no-auto-compile", "busy.scm"], ["*@libguile-3.0.so.1"], jit=True),
    "lua": Animal("scripts/busy.lua", (), ["lua5.4", "busy.lua"]),
    "luajit": Animal("scripts/busy.lua", (), ["luajit", "busy.lua"], jit=True),
    "node": Animal("scripts/busy.js", (), ["node", "busy.js"], jit=True),
    "octave": Animal("scripts/busy.m", (), ["octave-cli", "--no-init-file", "--no-gui", "busy.m"], ["*@liboctinterp.so.10"]),
    "perl": Animal("scripts/busy.pl", (), ["perl", "busy.pl"]),
    "php": Animal("scripts/busy.php", (), ["php", "-d", "opcache.enable_cli=0", "busy.php"]),
    "picolisp": Animal("scripts/busy.l", (), ["/usr/bin/picolisp", "/usr/lib/picolisp/lib.l", "busy.l"]),
    "pike": Animal("scripts/busy.pike", (), ["pike8.0", "busy.pike"], jit=True),
    "polyml": Animal("scripts/busy.sml", (), ["poly", "-q", "--script", "busy.sml"], ["*@libpolyml.so.9"], jit=True),
    "prolog": Animal("scripts/busy.pro", (), ["swipl", "-q", "busy.pro", "--"], ["*@libswipl.so.9"]),
    "pypy": Animal("scripts/busy.py", (), ["pypy3", "busy.py"], ["*@libpypy3.9-c.so"], jit=True),
    "python": Animal("scripts/busy.py", (), ["/usr/bin/python3", "busy.py"], env={"PYTHONHASHSEED": "0"}),
    "r": r(),
    "racket": Animal("scripts/busy.rkt", (), ["racket", "busy.rkt"], jit=True),
    "ruby": Animal("scripts/busy.rb", (), ["ruby", "busy.rb"], ["*@libruby-3.1.so.3.1"]),
    "sbcl": Animal("scripts/busy.lisp", (), ["sbcl", "--noinform", "--no-userinit", "--script", "busy.lisp"], jit=True),
    "tcl": Animal("scripts/busy.tcl", (), ["tclsh8.6", "busy.tcl"], ["*@libtcl8.6.so"]),
}
