"""Random expressions over typed variables, as a C file: each as text, and as the function that the compiler makes of it.

What C leaves undefined is defined as dyntrace has it: signed overflow wraps (-fwrapv), a division by 0 fails, shifts by too
much give 0 or the sign.
"""
import random
import sys

INTEGERS = ["sc", "uc", "s", "us", "i", "u", "l", "ul", "b", "e", "*p", "p[u & 1]", "p[-1]", "*(p + (b & 1))", "(p - 1)[1]",
            "(&p[2] - p)", "((unsigned char *)p)[5]", "*(short *)p", "(*(long **)&p)[0]"]
REALS = ["f", "d", "ld"]
NUMBERS = ["0", "1", "-1", "7", "255", "0x80000000", "2147483647", "4294967295", "0xffffffffffffffff", "3u", "5l", "2ul", "'a'", "010",
           "GREEN"]
WRITTEN = ["0.5", "-3.25", "1e10", "2.0f", "0.0", "1e300"]
CASTS = ["int", "unsigned", "char", "unsigned char", "short", "unsigned short", "long", "unsigned long", "uint32_t", "int64_t", "size_t",
         "bool", "enum colour", "long unsigned int"]
BINARY = ["+", "-", "*", "&", "|", "^", "==", "!=", "<", "<=", ">", ">=", "&&", "||"]
TEXT_MAX = 120  # longer ones may be too long
SPECIAL = {"/": "DIVIDE", "%": "REST", "<<": "LEFT", ">>": "RIGHT"}


def integer(rng, depth):
    """Text and C of an integer."""
    kind = rng.randrange(12)
    if depth == 0 or kind == 0:
        leaf = rng.choice(INTEGERS if rng.randrange(3) else NUMBERS)
        return leaf, leaf
    if kind == 1:
        cast, (text, c) = rng.choice(CASTS), integer(rng, depth - 1)
        return f"({cast})({text})", f"({cast})({c})"
    if kind == 2:
        sign, (text, c) = rng.choice("!~-+"), integer(rng, depth - 1)
        return f"{sign}({text})", f"{sign}({c})"
    if kind == 3:
        sign = rng.choice(["==", "!=", "<", "<=", ">", ">=", "&&", "||"])
        (left, c), (right, d) = real(rng, depth - 1), (real if rng.randrange(2) else integer)(rng, depth - 1)
        if rng.randrange(2):
            left, c, right, d = right, d, left, c
        return f"({left}) {sign} ({right})", f"({c}) {sign} ({d})"
    if kind == 4:
        leaf = rng.choice(["f", "d"])
        cast = rng.choice(["int", "long", "(short)(long", "long long"])
        return (f"({cast})small_{leaf}",) * 2 if "(" not in cast else (f"{cast})small_{leaf}",) * 2
    if kind == 5:
        name = rng.choice(INTEGERS[:10] + REALS + ["unsigned long", "enum colour", "p", "char *", "*p", "short", "f + 1", "sc + sc", "d < f"])
        return f"sizeof({name})", f"sizeof({name})"
    (left, c), (right, d) = integer(rng, depth - 1), integer(rng, depth - 1)
    if kind <= 7:
        sign = rng.choice(list(SPECIAL))
        return f"({left}) {sign} ({right})", f"{SPECIAL[sign]}({c}, {d})"
    if kind == 8:  # how closely they bind
        words = [rng.choice(INTEGERS + NUMBERS)]
        for _ in range(rng.randrange(1, 5)):
            words += [rng.choice(BINARY), rng.choice(INTEGERS + NUMBERS)]
        return (" ".join(words),) * 2
    sign = rng.choice(BINARY)
    return f"({left}) {sign} ({right})", f"({c}) {sign} ({d})"


def real(rng, depth):
    if depth == 0 or rng.randrange(4) == 0:
        leaf = rng.choice(REALS if rng.randrange(3) else WRITTEN)
        return (leaf, leaf) if leaf != "ld" else ("ld", "(double)ld")
    (left, c), (right, d) = real(rng, depth - 1), (real if rng.randrange(3) else integer)(rng, depth - 1)
    if rng.randrange(6) == 0:
        cast = rng.choice(["float", "double"])
        return f"({cast})({right})", f"({cast})({d})"
    if rng.randrange(6) == 0:
        return f"-({left})", f"-({c})"
    if rng.randrange(2):
        left, c, right, d = right, d, left, c
    sign = rng.choice("+-*/")
    # a division of two integers isn't a real one, but for them the function is called only beside a real number
    return f"({left}) {sign} ({right})", f"({c}) {sign} ({d})"


# What C leaves open, the processor decides: loads that are not aligned, for one.
ATTRIBUTE = '__attribute__((no_sanitize("undefined")))'


def main():
    rng, texts = random.Random(int(sys.argv[1])), []
    while len(texts) < int(sys.argv[2]):
        text, c = integer(rng, rng.randrange(1, 4))
        if len(text) < TEXT_MAX:
            texts.append((text, c))
    for number, (text, c) in enumerate(texts):
        print(f"{ATTRIBUTE}\nstatic bool expression_{number}(void)\n{{\n\treturn ({c}) != 0;\n}}\n")
    print("static const struct {\n\tconst char *text;\n\tbool (*function)(void);\n} expressions[] = {")
    for number, (text, c) in enumerate(texts):
        print("\t{ \"%s\", expression_%d }," % (text, number))
    print("};")


main()
