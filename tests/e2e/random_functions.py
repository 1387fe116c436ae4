"""Writes a C program of functions with known parameters, some of which they use or pass on, and calls each with known values."""
import random

HEAD = """#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))
typedef unsigned long word;
volatile word sink, values[6];
volatile int zero;
static NOINLINE word v_sum(word first, ...) { va_list list; va_start(list, first); word n = first, sum = 0;
  while (n--) sum += va_arg(list, word); va_end(list); return sum; }
static NOINLINE word p_take(word a, word b, word c, word d, word e, word f) { return a ^ b * 3 ^ c * 5 ^ d * 7 ^ e * 11 ^ f * 13; }
static NOINLINE word p_ignore(word a, word b, word c, word d, word e, word f) { sink++; return 1; }
struct pair { word first, second; };
static NOINLINE struct pair p_pair(word a, word b) { sink++; return (struct pair){ a, b }; }
volatile word way; /* never more than 5, which nothing says */
static NOINLINE void p_leave(void) { switch (way) { case 0: sink = 7; way = 1; break; case 1: sink ^= 17; way = 2; break;
  case 2: sink += 13; way = 3; break; case 3: sink *= 3; way = 4; break; case 4: sink <<= 2; way = 5; break;
  case 5: sink = ~sink; way = 0; break; default: __builtin_unreachable(); } }
static void (*volatile p_die)(int) __attribute__((noreturn)) = exit;
static word (*volatile pointer)(word, word, word, word, word, word) = p_take;
"""


def passing(number, rest="1"):
    """Arguments of a call that has the parameter in its own place, where no instruction need touch it."""
    return ", ".join(f"p{i}" if i == number else rest for i in range(6))


def kernel_call(number):
    """A system call that fails, with the parameter as one of its arguments: write, or process_vm_readv with all six."""
    if number == 3:
        return f"  sink += p{number};"
    if number < 3:
        return f"""  {{ word r; __asm__ volatile("syscall" : "=a"(r) : "a"(1ul), {", ".join(f'"{c}"({f"p{i}" if i == number else "-1ul"})'
               for i, c in enumerate("DSd"))} : "rcx", "r11", "memory"); sink += r; }}"""
    return f"""  {{ register word e __asm__("r8") = {"p4" if number == 4 else 1}, f __asm__("r9") = {"p5" if number == 5 else 1}, r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(310ul), "D"(-1ul), "S"(1ul), "d"(1ul), "r"(e), "r"(f) : "rcx", "r11", "memory"); sink += r; }}"""


def choice(number):
    """A switch with a jump table, one of whose ways uses the parameter."""
    ways = [f"case {i}: sink += p_ignore({i}, 2, 3, 4, 5, 6); break;" for i in range(9)]
    ways[number] = f"case {number}: sink ^= p{number}; break;"
    return f"  switch (sink & 15) {{ {' '.join(ways)} }}"


SHAPES = [
    lambda n: f"  sink += p{n};",
    lambda n: f"  if (zero == 0) sink += p{n} * 3;",
    lambda n: f"  for (word i = 0; i < 3; i++) sink += p{n} >> i;",
    lambda n: f"  sink += (unsigned char)p{n};",
    lambda n: f"  {{ char text[64]; sink += (word)snprintf(text, sizeof(text), \"%lx\", p{n}); }}",
    lambda n: f"  sink += pointer({passing(n)});",
    lambda n: f"  sink += p_take({passing(n, 'sink')});",
    lambda n: f"  sink += v_sum(2ul, {n}ul, p{n});",
    lambda n: f"  switch (sink % 7) {{ case 0: sink += 5; case 1: sink ^= 3; case 2: sink += 9; case 3: sink *= 3; case 4: sink--;"
              f" default: sink += p{n}; }}",
    lambda n: f"  if (zero) abort(); else sink += __builtin_ctzl(p{n} | 256);",
    lambda n: f"  {{ word filled; memset(&filled, (int)p{n}, sizeof(filled)); sink += filled; }}",
    kernel_call,
    choice,
    lambda n: f"  {{ volatile word room[p{n} % 5 + 1]; room[0] = zero; sink += room[0]; }}",
]


def write(path, seed, count):
    """{name: (numbers of the parameters that are used, values of all at the one call, or None)}"""
    chosen, used, text, calls, before = random.Random(seed), {}, [HEAD], [], []
    counts = {}
    for at in range(count):
        parameters = chosen.randint(0, 6)
        numbers = {n for n in range(parameters) if chosen.random() < 0.6}
        name = f"f_{at}"
        head = f"{name}({', '.join(f'word p{n}' for n in range(parameters)) or 'void'})"
        body = [chosen.choice(SHAPES)(n) for n in sorted(numbers)]
        passed_on = [(other, n) for other in before[-8:] for n in sorted(used[other][0]) if n < parameters]
        if passed_on and chosen.random() < 0.3:  # a parameter where it is, to a function that uses it
            other, n = chosen.choice(passed_on)
            others = ", ".join(f"p{i}" if i == n else "2" for i in range(counts[other]))
            body.append(f"  if (sink & 64) sink += {other}({others});")
            numbers |= {n}
            used[other] = (used[other][0], None)
        if chosen.random() < 0.3:
            body.insert(0, "  if (zero) { sink += p_ignore(1, 2, 3, 4, 5, 6); return 3; }")
        beside = ["  p_leave();", "  if (sink == 12345) p_die(3);", "  if (sink == 54321) abort();"]
        body += chosen.sample(beside, chosen.randint(0, 2))
        chosen.shuffle(body)
        tail = "  return sink;"
        if parameters == 6 and chosen.random() < 0.5:  # a jump to another function, with all arguments where they are
            tail, numbers = "  return pointer(p0, p1, p2, p3, p4, p5);", set(range(6))
        if parameters == 3 and chosen.random() < 0.5:
            body, tail, numbers = [], "  return pointer(p0, p1, p2, 1, 1, 1);", set(range(3))
        # compilers make one function of two that are alike
        text.append(f"NOINLINE word {head}\n{{\n  sink += {at};\n" + "\n".join(body) + f"\n{tail}\n}}\n")
        values = [chosen.randrange(1, 1 << 40) for _ in range(parameters)]
        # by way of memory: compilers put constants into the functions themselves
        calls += [f"  values[{n}] = {value}ul;" for n, value in enumerate(values)]
        passed = [f"values[{n}]" for n in range(parameters)]
        if parameters == 3:  # the second word of a result may stay where it is
            passed[1:] = ["pair.first", "pair.second"]
            calls += ["  pair = p_pair(values[1], values[2]);", f"  sink += {name}({', '.join(passed)});"]
            calls += ["  pair = p_pair(values[1], values[2]);"]
        calls.append(f"  sink += {name}({', '.join(passed)});")
        used[name] = (numbers, values)
        counts[name] = parameters
        before.append(name)
    with open(path, "w") as file:
        file.write("\n".join(text) + "\nint main(void)\n{\n  struct pair pair;\n" + "\n".join(calls) + "\n  return 0;\n}\n")
    return used
