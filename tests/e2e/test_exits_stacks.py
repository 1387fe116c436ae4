"""dyntrace trace -e on programs whose libraries switch stacks: they behave as untraced (R1, R7), and all calls are accounted for."""
import subprocess

import pytest

from test_exits_real import compare

# A coroutine that is resumed by two threads in turn, and throws on either.
COROUTINE = r"""
#include <coroutine>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>

struct Numbers {
    struct promise_type {
        int value;
        Numbers get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        std::suspend_always yield_value(int number) { value = number; return {}; }
        void return_void() {}
        void unhandled_exception() { throw; }
    };
    std::coroutine_handle<promise_type> handle;
    ~Numbers() { handle.destroy(); }
};

int square(int n)
{
    if (n == 7)
        throw std::runtime_error("seven");
    return n * n;
}

Numbers squares(int from, int to)
{
    for (int i = from; i < to; i++)
        co_yield square(i);
}

void resume(Numbers &numbers) { numbers.handle.resume(); }

void resume_elsewhere(Numbers &numbers)
{
    std::exception_ptr thrown;
    std::thread([&] {
        try {
            resume(numbers);
        } catch (...) {
            thrown = std::current_exception();
        }
    }).join();
    if (thrown)
        std::rethrow_exception(thrown);
}

int main()
{
    int sum = 0, caught = 0;

    for (int from = 0; from < 12; from++) {
        Numbers numbers = squares(from, 10);
        try {
            for (int i = 0; i < 11 - from; i++) {
                i & 1 ? resume_elsewhere(numbers) : resume(numbers);
                sum += numbers.handle.done() ? 0 : numbers.handle.promise().value;
            }
        } catch (std::exception &error) {
            caught++;
        }
    }
    printf("%d %d\n", sum, caught);
}
"""

# Stacks that are copied away and back, to the same place: greenlets in calls of different depths.
GREENLETS = """
import sys
sys.path.append('/usr/lib/python3/dist-packages')
import greenlet
out = []
def deep(n):
    if n:
        return sorted([n, deep(n - 1)], key=lambda x: -x)[0]
    return main.switch(n) or 0
def run(i):
    for j in range(10):
        try:
            out.append(deep(j))
            int('x')
        except ValueError:
            out.append(-1)
main = greenlet.getcurrent()
all = [greenlet.greenlet(run) for _ in range(10)]
for _ in range(12):
    for i, g in enumerate(all):
        if not g.dead:
            g.switch(i)
print(sum(out), len(out), [g.dead for g in all].count(True))
"""

CORO = """
use Coro;
my $sum = 0;
my @all = map { my $i = $_; async { for my $j (1 .. 5) { $sum += $i * $j; cede; eval { die "x" if $j % 2 }; $sum++ if $@ } } } 1 .. 5;
$_->join for @all;
print "$sum\\n";
"""

LUA = """
local sum = 0
local function count(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end error("done") end) end
for round = 1, 5 do
  local next, going = count(5), true
  while going do
    local ok, value = pcall(next)
    going = ok
    if ok then sum = sum + value end
  end
end
print(sum)
"""


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_coroutine_on_two_threads(dyntrace, scratch, level):
    source, program = f"{scratch}/coroutine.cpp", f"{scratch}/coroutine"
    with open(source, "w") as file:
        file.write(COROUTINE)
    subprocess.run(["g++", "-std=c++20", "-g", level, "-fno-inline", "-pthread", "-o", program, source], check=True)
    calls, _ = compare(dyntrace, [program], "*")
    assert calls["square"] == sum(8 - start if start < 8 else 10 - start for start in range(10))


def test_greenlets(dyntrace):
    calls, _ = compare(dyntrace, ["/usr/bin/python3", "-S", "-I", "-c", GREENLETS], "_PyEval*", "PyEval*", "_PyObject_[CMV]*", "PyObject_[CV]*")
    assert calls["_PyEval_EvalFrameDefault"] > 500


def test_coro(dyntrace):
    calls, _ = compare(dyntrace, ["perl", "-e", CORO], "Perl_pp_[a-l]*", "Perl_call*", "Perl_die*", "Perl_runops_standard")
    assert calls["Perl_pp_entersub"] > 50


def test_lua(dyntrace):
    calls, _ = compare(dyntrace, ["lua5.4", "-e", LUA], "*")
    assert calls["lua_resume"] == 5 * 6
