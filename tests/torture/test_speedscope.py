"""The speedscope app itself, from npm, in Chromium, shows what `export --speedscope` writes."""
import base64
import os
import re

import pytest

from calls_oracle import Calls
from test_own_reader import CALLS, record

APP = os.path.join(os.environ["DYNTRACE_BUILD"], "speedscope", "package", "dist", "release", "index.html")
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
ROWS = "[...document.querySelectorAll('table tr')].map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent)).filter(row => row.length)"


def ns(text):
    """'1.23ms (45%)' in nanoseconds, and half of its last digit."""
    number, unit = re.match(r"([\d.]+)(ns|µs|ms|s)\b", text).groups()
    return float(number) * UNITS[unit], 0.5 * 10 ** -len(number.partition(".")[2]) * UNITS[unit]


@pytest.mark.skipif(not os.path.exists(APP), reason="`make torture` fetches speedscope with npm, and couldn't")
def test_the_app_has_our_numbers(dyntrace, scratch, program_path, browser):
    """Its table of functions against Python over babeltrace2. The app reads a file by itself where a script hands it over."""
    trace = record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 200, 1)
    path = os.path.join(scratch, "calls.speedscope.json")
    dyntrace("export", trace, "--speedscope", path)
    with open(path, "rb") as file, open(path + ".js", "w") as script:
        script.write(f'speedscope.loadFileFromBase64("calls.speedscope.json", "{base64.b64encode(file.read()).decode()}")')
    browser.open(f"file://{APP}#localProfilePath={path}.js", ready="document.body.textContent.includes('process ')")
    assert re.search(r"process \d+, thread \d+", browser.run("document.body.textContent"))
    browser.key("3")  # the table of functions
    browser.wait(f"({ROWS}).length >= 4")
    rows, oracle = {row[-1]: row for row in browser.run(ROWS)}, Calls(trace).numbers
    assert set(rows) >= {name for name, numbers in oracle.items() if numbers["calls"]}
    for name, numbers in oracle.items():
        for key, text in zip(("total", "self"), rows[name]):
            shown, half = ns(text)
            assert abs(shown - numbers[key]) <= half + numbers[key] * 1e-2 + 2 * numbers["calls"], (name, key, text)
    assert not [one for one in browser.complaints() if one["method"] == "Runtime.exceptionThrown"]  # (it says hello on the console)
