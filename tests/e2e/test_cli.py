"""A user's first commands: help, version, mistakes; and the man pages, which come from the same tables.

The list of commands comes from dyntrace itself, so that a new command is tested at once.
"""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIRST = {"coverage", "detach", "list-markers", "list-symbols", "trace", "view"}
WIDTH = 100
LONGEST_EXAMPLE = 110


@pytest.fixture
def commands(dyntrace):
    """Their names, in the order of the list."""
    names = re.findall(r"^  ([a-z][a-z-]*) +\S", dyntrace("--help").stdout, re.M)
    assert FIRST <= set(names) and len(set(names)) == len(names)
    return names


def options_of(text):
    """The options in --help: [(spellings, text)]. The text begins at column 26, or below."""
    options = []
    for line in text.split("\nExample:\n")[0].splitlines():
        if re.match(r"  (-|    --)", line):
            fits = line[24:26] == "  "
            options.append([re.findall(r"(?<!\S)--?[a-zA-Z][a-z-]*", line[:24] if fits else line),
                            line[26:].split() if fits else []])
        elif line.startswith(" " * 26):
            options[-1][1] += line.split()
    return [(names, " ".join(words)) for names, words in options]


def man_page(dyntrace, name):
    """The page as the build makes it."""
    prose = os.path.join(ROOT, "docs", "man", f"{name}.roff")
    return dyntrace("help", "--man", name, *([prose] if os.path.exists(prose) else [])).stdout


def unescaped(roff):
    for escape, character in ("\\-", "-"), ("\\(aq", "'"), ("\\(dq", '"'), ("\\&", ""), ("\\e", "\\"):
        roff = roff.replace(escape, character)
    return re.sub(r"\\f[BIR]", "", roff)


def test_no_words_is_a_usage_error_that_shows_the_commands(dyntrace):
    result = dyntrace(status=2)
    assert result.stdout == ""
    assert result.stderr == dyntrace("--help").stdout


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(dyntrace, commands, words):
    result = dyntrace(*words)
    assert result.stderr == ""
    assert max(map(len, result.stdout.splitlines())) <= WIDTH
    listed = re.findall(r"&command_(\w+),", open(os.path.join(ROOT, "src", "cli", "dyntrace.c")).read())
    assert commands == [name.replace("_", "-") for name in listed]


def test_help_of_a_command_has_usage_options_and_example(dyntrace, commands):
    for command in commands:
        text = dyntrace("help", command).stdout
        assert text == dyntrace(command, "--help").stdout == dyntrace(command, "-h").stdout
        assert f"Usage: dyntrace {command}" in text
        assert text.count("\nExample:\n") == 1, f"{command} has no example"
        before, examples = text.split("\nExample:\n")
        assert re.search(rf"^  .*\bdyntrace {command}\b", examples, re.M)
        assert max(map(len, before.splitlines())) <= WIDTH
        assert max(map(len, examples.splitlines())) <= LONGEST_EXAMPLE


def test_every_option_has_a_text(dyntrace, commands):
    for command in commands:
        options = options_of(dyntrace("help", command).stdout)
        assert options[-1] == (["-h", "--help"], "show this text")
        for names, text in options:
            assert names and len(text) >= 8, f"{command} {names}: {text!r}"


def test_long_texts_are_wrapped_not_cut(dyntrace):
    text = dyntrace("help", "trace").stdout
    modes = dict((names[-1], words) for names, words in options_of(text))["--mode"]
    assert len(modes) > WIDTH and modes.endswith("(default: discard)")


def test_help_beats_what_is_behind_it(dyntrace):
    assert "Usage" in dyntrace("view", "--help", "--no-such-option").stdout


def test_version(dyntrace):
    assert re.fullmatch(r"dyntrace \d+\.\d+\.\d+\n", dyntrace("--version").stdout)
    assert dyntrace("version").stdout == dyntrace("-V").stdout == dyntrace("--version").stdout


def test_unknown_command(dyntrace):
    assert dyntrace.fails("veiw", status=2) == "unknown command 'veiw' (did you mean 'view'?)"
    assert dyntrace.fails("stat", status=2) == "unknown command 'stat' (did you mean 'dyntrace trace --tracer count'?)"
    assert dyntrace.fails("ps", status=2) == "unknown command 'ps' (did you mean 'dyntrace list-processes'?)"
    assert dyntrace.fails("trace", "--time", "1", status=2) == "trace: unknown option '--time' (did you mean '--for'?)"
    assert dyntrace.fails("trace", "--duration=1s", status=2) == "trace: unknown option '--duration' (did you mean '--for'?)"
    assert dyntrace.fails("trace", "--stack", status=2) == "trace: unknown option '--stack' (did you mean '-t backtrace'?)"
    assert dyntrace.fails("help", "list-symbol", status=2) == \
        "unknown command 'list-symbol' (did you mean 'list-symbols'?)"
    assert dyntrace.fails("zzzzz", status=2) == "unknown command 'zzzzz' ('dyntrace help' lists them)"
    assert dyntrace.fails("--zzz", status=2) == "unknown option '--zzz' ('dyntrace --help' lists the commands)"


def test_unknown_option(dyntrace):
    assert dyntrace.fails("view", "--jsno", "x", status=2) == \
        "view: unknown option '--jsno' (did you mean '--json'?)"


def test_numbers_and_sizes(dyntrace):
    """A number of hits isn't called a size."""
    for words, what in ((["--first", "-1"], "'-1' is not a number"), (["--deref", "x"], "'x' is not a number"),
                        (["--buffer-size", "x"], "'x' is not a size (4096, 64M, 1G)")):
        assert dyntrace.fails("trace", *words, "--function", "f", "--", "true", status=2) == f"trace: option '{words[0]}': {what}"


def test_missing_words(dyntrace):
    assert dyntrace.fails("view", status=2).startswith("view: give a TRACE")
    assert dyntrace.fails("list-symbols", status=2).startswith("list-symbols: give one TARGET or FILE")
    assert dyntrace.fails("view", "a", "b", status=2) == "view: unexpected argument 'b'"


def test_a_full_disk_is_an_error(dyntrace):
    with open("/dev/full", "w") as full:
        result = subprocess.run([dyntrace.path, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert result.stderr == "dyntrace: cannot write the output: No space left on device\n"


def test_installed_below_a_prefix_it_still_runs(dyntrace, commands, build, scratch):
    environment = {**os.environ, "DESTDIR": scratch}
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    found = [os.path.join(folder, name) for folder, _, names in os.walk(scratch) for name in names]
    program, = [path for path in found if path.endswith("/bin/dyntrace")]
    assert [path for path in found if path.endswith("/lib/dyntrace/libdyntrace-agent.so")] or \
        [path for path in found if path.endswith("/dyntrace/libdyntrace-agent.so")]
    assert subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout == \
        dyntrace("--version").stdout
    pages = {os.path.basename(path): path for path in found if path.endswith(".1")}
    for name in ["dyntrace", *(f"dyntrace-{command}" for command in commands)]:
        with open(pages.pop(f"{name}.1")) as page:
            assert page.read() == man_page(dyntrace, name)


def test_the_man_page_has_every_option_with_its_text(dyntrace, commands):
    for command in commands:
        page = unescaped(man_page(dyntrace, f"dyntrace-{command}"))
        entries = [entry.partition("\n") for entry in re.split(r"^\.TP\n", page, flags=re.M)[1:]]
        described = {tuple(re.findall(r"(?<!\S)--?[a-zA-Z][a-z-]*", head)):
                     " ".join(re.split(r"^\.S", text, flags=re.M)[0].split()) for head, _, text in entries}
        for names, text in options_of(dyntrace("help", command).stdout)[:-1]:
            assert described[tuple(names)] == text, f"{command} {names}"
        assert described["-h", "--help"]


def test_the_man_page_has_what_help_says(dyntrace, commands):
    overview = unescaped(man_page(dyntrace, "dyntrace"))
    for command in commands:
        text = dyntrace("help", command).stdout
        page = unescaped(man_page(dyntrace, f"dyntrace-{command}"))
        assert f".TP\n.BR dyntrace-{command} (1)\n" in overview
        assert f".SH NAME\ndyntrace-{command} - {text.splitlines()[0].split(': ', 1)[1]}\n" in page
        for line in text.split("\nExample:\n")[1].splitlines():
            assert f"\n{line[2:]}\n" in page
        for section in "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO":
            assert page.count(f".SH {section}\n") == 1


def test_man_pages_are_clean_roff(dyntrace, commands):
    for name in ["dyntrace", *(f"dyntrace-{command}" for command in commands)]:
        result = subprocess.run(["groff", "-ww", "-man", "-Tutf8", "-P-cbou"], input=man_page(dyntrace, name),
                                capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (0, ""), name
        if name != "dyntrace":  # printed commands can be copied and run: quotes and dashes are unchanged
            examples = dyntrace("help", name.partition("-")[2]).stdout.split("\nExample:\n")[1]
            assert set(examples.split("\n")) <= {line.replace(" " * 7, "  ", 1) for line in result.stdout.split("\n")}


def test_man_pages_explain_terms_columns_files_and_the_environment(dyntrace):
    page = man_page(dyntrace, "dyntrace")
    for section in ("WORDS", "COLUMNS", "EXIT STATUS", "ENVIRONMENT", "FILES"):
        assert f".SH {section}\n" in page
    pages = unescaped(page + "".join(path.read_text() for path in Path(ROOT, "docs", "man").glob("*.roff")))
    sources = [path.read_text() for path in Path(ROOT, "src").rglob("*.c")]
    variables = {name for text in sources for name in re.findall(r'getenv\("(\w+)"\)', text)}
    usual = {"HOME", "PATH", "TERM", "LISTEN_PID", "DYNTRACE_PAGE_CALLS"}  # the last is for tests
    assert "DYNTRACE_PAGER" in variables and not [name for name in variables - usual if name not in pages]


def section(page, name):
    return page.split(f".SH {name}\n")[1].split(".SH ")[0]


def test_man_pages_explain_every_column(dyntrace):
    columns = section(unescaped(man_page(dyntrace, "dyntrace")), "COLUMNS")
    explained = set(re.findall(r"[\w/%]+", " ".join(re.findall(r"^\.I (.*)", columns, re.M))))
    calls = Path(ROOT, "src", "options", "calls_table.c").read_text()
    top = Path(ROOT, "src", "cli", "top", "top_view.c").read_text()
    shown = {title for title, when in re.findall(r'^\t\{ "([\w/]+)", \w+, ([\w |]+),', calls, re.M) if "DATA" not in when}
    shown |= set(re.findall(r'"([\w/%]+)"', re.search(r"\bcolumns\[\] = \{([^}]+)\}", top)[1]))
    assert {"calls", "lost", "unwound", "total%"} <= shown and shown <= explained, shown - explained


def test_the_library_s_man_page_names_every_call():
    header = Path(ROOT, "include", "dyntrace", "dyntrace.h").read_text()
    page = Path(ROOT, "docs", "man", "libdyntrace.roff").read_text()
    calls = set(re.findall(r"^(?![ \t]*[/*#]).*?\b(dyntrace_\w+)\(", header, re.M))
    assert len(calls) > 30 and not [name for name in sorted(calls) if not re.search(rf"\b{name}\b", page)]


def test_a_man_page_that_there_is_not(dyntrace):
    wrong = "help --man: give 'dyntrace' or 'dyntrace-COMMAND'"
    for page in [], ["trace"], ["dyntrace-zzz"], ["dyntracex"]:
        assert dyntrace.fails("help", "--man", *page, status=2) == wrong
    assert dyntrace.fails("help", "--man", "dyntrace", "/no/such", status=1) == \
        "cannot read /no/such: No such file or directory"
