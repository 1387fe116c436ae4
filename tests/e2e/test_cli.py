"""What a user types first: help, version, mistakes."""
import os
import re
import subprocess

import pytest

COMMANDS = ["coverage", "list-symbols", "trace", "view"]


def test_no_words_is_a_usage_error_that_shows_the_commands(dyntrace):
    result = dyntrace(status=2)
    assert result.stdout == ""
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\w", result.stderr, re.M)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_lists_every_command(dyntrace, words):
    result = dyntrace(*words)
    assert result.stderr == ""
    assert sorted(re.findall(r"^  ([a-z-]+) +\w", result.stdout, re.M)) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_usage_options_and_example(dyntrace, command):
    text = dyntrace("help", command).stdout
    assert text == dyntrace(command, "--help").stdout == dyntrace(command, "-h").stdout
    assert f"Usage: dyntrace {command} " in text
    assert "\n  -h, --help" in text
    assert f"\nExample:\n  dyntrace {command} " in text
    assert max(map(len, text.splitlines())) <= 110


def test_help_beats_what_is_behind_it(dyntrace):
    assert "Usage" in dyntrace("view", "--help", "--no-such-option").stdout


def test_version(dyntrace):
    assert re.fullmatch(r"dyntrace \d+\.\d+\.\d+\n", dyntrace("--version").stdout)


def test_unknown_command(dyntrace):
    assert dyntrace.fails("veiw", status=2) == "unknown command 'veiw' (did you mean 'view'?)"
    assert dyntrace.fails("help", "list-symbol", status=2) == \
        "unknown command 'list-symbol' (did you mean 'list-symbols'?)"
    assert dyntrace.fails("zzzzz", status=2) == "unknown command 'zzzzz' ('dyntrace help' lists them)"
    assert dyntrace.fails("--zzz", status=2) == "unknown option '--zzz' ('dyntrace --help' lists the commands)"


def test_unknown_option(dyntrace):
    assert dyntrace.fails("view", "--jsno", "x", status=2) == \
        "view: unknown option '--jsno' (did you mean '--json'?)"


def test_missing_words(dyntrace):
    assert dyntrace.fails("view", status=2).startswith("view: one TRACE is needed")
    assert dyntrace.fails("list-symbols", status=2).startswith("list-symbols: a TARGET or FILE is needed")
    assert dyntrace.fails("view", "a", "b", status=2).startswith("view: one TRACE is needed")


def test_a_full_disk_is_an_error(dyntrace):
    with open("/dev/full", "w") as full:
        result = subprocess.run([dyntrace.path, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    assert result.stderr == "dyntrace: cannot write the output: No space left on device\n"


def test_installed_below_a_prefix_it_still_runs(dyntrace, build, scratch):
    environment = {**os.environ, "DESTDIR": scratch}
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], env=environment, check=True,
                   stdout=subprocess.DEVNULL)
    found = [os.path.join(folder, name) for folder, _, names in os.walk(scratch) for name in names]
    program, = [path for path in found if path.endswith("/bin/dyntrace")]
    assert [path for path in found if path.endswith("/lib/dyntrace/libdyntrace-agent.so")] or \
        [path for path in found if path.endswith("/dyntrace/libdyntrace-agent.so")]
    assert subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout == \
        dyntrace("--version").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_man_page_has_every_option(dyntrace, command):
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "docs", "man", f"dyntrace-{command}.1")) as file:
        page = file.read().replace("\\-", "-")
    text = dyntrace("help", command).stdout.split("\nOptions:\n")[1].split("\nExample:\n")[0]
    options = re.findall(r"(?:^|(?<=, )|(?<= ))(--?[a-z][a-z-]*)", text, re.M)
    assert "--help" in options
    missing = [option for option in options if not re.search(rf"{option}(?![a-z-])", page)]
    assert missing == []
