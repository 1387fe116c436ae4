"""C++ that nobody here wrote: types of Debian's nlohmann-json and fmt, compared with the document that they hold."""
import json
import os
import subprocess

import pytest

from test_std_types import bare

TEXT = '{"name":"x","list":[1,-7,2.5,"three",null,true,[4]],"deep":{"a":{"b":1}}}'
SOURCE = r"""
#define FMT_HEADER_ONLY
#include <fmt/format.h>
#include <nlohmann/json.hpp>
using nlohmann::json;
volatile int sink;
#define CALLED __attribute__((noinline))
CALLED void objects(const json::object_t &object, const json::array_t &array, json::exception *none)
{
	sink += object.size() + array.size();
}
CALLED void texts(const std::vector<std::string> &rows, fmt::string_view view)
{
	sink += rows.size() + view.size();
}
int main(int argc, char **argv)
{
	json document = json::parse(argv[1]);
	objects(document.get_ref<json::object_t &>(), document["list"].get_ref<json::array_t &>(), nullptr);
	std::vector<std::string> rows;
	for (auto &one : document.items())
		rows.push_back(fmt::format("{}: {:>8}", one.key(), one.value().dump()));
	texts(rows, fmt::string_view("a view, cut", 6));
	return document.dump().empty();
}
"""
# enum class value_t: the member of the union that is in use
MEMBERS = {4: "boolean", 5: "number_integer", 6: "number_unsigned", 7: "number_float"}
KINDS = {dict: 1, list: 2, str: 3, type(None): 0, bool: 4, float: 7}


@pytest.fixture(name="program")
def compile_program(scratch):
    for header in ("/usr/include/nlohmann/json.hpp", "/usr/include/fmt/format.h"):
        if not os.path.exists(header):
            pytest.skip(f"no {header}")
    path = os.path.join(scratch, "real")
    subprocess.run(["g++", "-w", "-g", "-O0", "-std=c++17", "-x", "c++", "-", "-o", path], input=SOURCE, text=True, check=True)
    return path


def check(found, value):
    """A nlohmann::json of the trace, and what Python reads in its place."""
    kind = KINDS.get(type(value), 6 if isinstance(value, int) and value >= 0 else 5)
    assert found["m_type"] == kind
    if kind in MEMBERS:
        assert found["m_value"][MEMBERS[kind]] == value


def test_types(dyntrace, program):
    _, trace = dyntrace.trace("--function", "objects", "--function", "texts", "--", program, TEXT)
    objects, texts = [bare(event.fields) for event in trace.events]
    assert trace.lost == 0 and not objects.get("unreadable") and not texts.get("unreadable")
    expected = json.loads(TEXT)
    assert [one["first"] for one in objects["object"]["elements"]] == sorted(expected)
    for one in objects["object"]["elements"]:
        check(one["second"], expected[one["first"]])
    assert objects["array"]["size"] == len(objects["array"]["elements"]) == 7
    for one, value in zip(objects["array"]["elements"], expected["list"]):
        check(one, value)
    assert texts["rows"] == {"size": 3, "elements": [
        f"{key}: {json.dumps(expected[key], separators=(',', ':')):>8}" for key in sorted(expected)]}
    assert texts["view"]["size_"] == 6 and texts["view"]["data_"].startswith("a view")


def test_every_function(dyntrace, program):
    """Arguments of all functions of both libraries, objects under construction among them: the program ends as without dyntrace."""
    result, trace = dyntrace.trace("-e", "--deref", "1", "--function", "*json*", "--function", "*fmt*", "--", program, TEXT)
    assert result.returncode == 0 and trace.lost == 0 and len(trace.events) > 10000
