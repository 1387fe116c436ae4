"""Random C and C++ functions: parameters of every class in every position, called with values that the test knows, and
results of every class.

A program is a row of functions that do nothing, and a main that calls each by a pointer the compiler can't see
through. dyntrace must record the values that main passed, and those that it got.
"""
import random
import struct

INTEGERS = [("signed char", 8, True), ("unsigned char", 8, False), ("short", 16, True), ("unsigned short", 16, False),
            ("int", 32, True), ("unsigned", 32, False), ("long", 64, True), ("unsigned long", 64, False)]
TEXTS = ["", "a", "some text", "x" * 100, "h\u00e4"]


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def random_scalar(rng, in_struct=False):
    """(type, C expression, expected field of the trace)"""
    kind = rng.choice(["int"] * 5 + ["float", "double", "pointer", "enum", "bool"] + ([] if in_struct else
                      ["long double", "text"]))
    if kind == "int":
        name, bits, signed = rng.choice(INTEGERS)
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        value = rng.choice([low, high, 0, 1, rng.randint(low, high)])
        suffix = "ul" if not signed else "l"
        text = f"({name})({value + 1}{suffix} - 1)" if value == low and signed else f"({name}){value}{suffix}"
        return name, text, value
    if kind in ("float", "double", "long double"):
        value = rng.choice([0.0, 1.5, -2.25, 1e10, rng.uniform(-1e6, 1e6)])
        value = single(value) if kind == "float" else value
        return kind, f"({kind}){value!r}", value
    if kind == "pointer":
        value = rng.choice([0, 1, rng.getrandbits(47)])
        return "void *", f"(void *){value}ul", value
    if kind == "enum":
        value = rng.choice([-1, 0, 7, 1000])
        return "enum e", f"(enum e){value}", value
    if kind == "bool":
        value = rng.choice([0, 1])
        return "_Bool", str(value), value
    value = rng.choice(TEXTS)
    return "const char *", '"' + value + '"', value


class Signature:
    def __init__(self, rng, number):
        self.name = f"f{number}"
        self.structs, self.types, self.values, self.expected = [], [], [], {}
        self.large = set()
        for i in range(rng.randint(0, 10)):
            if rng.random() < 0.3:
                self.add_struct(rng, i)
            else:
                type_name, text, value = random_scalar(rng)
                self.add(f"p{i}", type_name, text, value)
        self.result, self.returned, self.expected_result = "void", None, None
        if rng.random() < 0.4:
            self.result, self.returned, self.expected_result = self.make_struct(rng, "r")
        elif rng.random() < 0.9:
            self.result, self.returned, self.expected_result = random_scalar(rng)

    def add(self, name, type_name, text, value):
        self.types.append(f"{type_name} {name}")
        self.values.append(text)
        self.expected[name] = value

    def make_struct(self, rng, i):
        """(type, C expression, expected field of the trace)"""
        tag = f"struct s_{self.name}_{i}"
        members = [self.random_member(rng, f"{i}_{k}") for k in range(rng.randint(1, 4))]
        body = "".join(f" {kind} m{k}{suffix};" for k, (kind, suffix, _, _) in enumerate(members))
        # Debug information doesn't say that a struct is packed. With numbers of 16 bytes in it it may look as if it weren't.
        large = any(kind in ("long double", "unsigned __int128") or kind in self.large for kind, _, _, _ in members)
        if large:
            self.large.add(tag)
        packed = " __attribute__((packed))" if rng.random() < 0.15 and not large else ""
        self.structs.append(f"struct{packed} s_{self.name}_{i} {{{body} }};")
        return (tag, f"({tag}){{ " + ", ".join(text for _, _, text, _ in members) + " }",
                {f"m{k}": value for k, (_, _, _, value) in enumerate(members)})

    def random_member(self, rng, i):
        """(type, what follows the name, C expression, expected field of the trace)"""
        kind = rng.random()
        if kind < 0.08:
            values = [rng.randint(0, 99) for _ in range(rng.randint(1, 4))]
            return "int", f"[{len(values)}]", "{" + ", ".join(map(str, values)) + "}", values
        if kind < 0.2:
            width = rng.randint(1, 40)
            value = rng.getrandbits(width)
            signed = rng.random() < 0.5
            shown = value - (1 << width) if signed and value >> width - 1 else value
            return ("signed long" if signed else "unsigned long"), f" : {width}", f"{shown}l", shown
        if kind < 0.26:
            low, high = rng.getrandbits(64), rng.getrandbits(63)
            return "unsigned __int128", "", f"((unsigned __int128){high}ul << 64 | {low}ul)", str(high << 64 | low)
        if kind < 0.3:
            value = rng.uniform(-1e6, 1e6)
            return "long double", "", f"{value!r}L", value
        if kind < 0.38 and i.count("_") < 2:
            tag, text, value = self.make_struct(rng, i)
            return tag, "", text, value
        if kind < 0.44 and i.count("_") < 2:
            tag, text, value = self.make_struct(rng, i)
            return tag, "[2]", f"{{ {text}, {text} }}", {"0": value, "1": value}
        type_name, text, value = random_scalar(rng, in_struct=True)
        return type_name, "", text, value

    def add_struct(self, rng, i):
        self.add(f"p{i}", *self.make_struct(rng, i))

    def definition(self):
        result = "" if self.result == "void" else f"\treturn {self.returned};\n"
        return "\n".join(self.structs) + (
            f"\n__attribute__((noinline)) {self.result} {self.name}({', '.join(self.types) or 'void'})\n"
            f"{{\n\tsink++;\n\tsink += 2;\n{result}}}\n")

    def call(self):
        return f"\tCALL({self.name})({', '.join(self.values)});\n"


def make(seed, count):
    """(C source, signatures)"""
    rng = random.Random(seed)
    signatures = [Signature(rng, i) for i in range(count)]
    source = ("#ifdef __cplusplus\n#define _Bool bool\nextern \"C\" {\n#endif\n"
              "enum e { NEG = -1, ZERO, SEVEN = 7, MANY = 1000 };\nstatic volatile int sink;\n"
              "#define CALL(f) ({ __typeof__(f) *volatile p = f; p; })\n"
              + "\n".join(s.definition() for s in signatures)
              + "\nint main(void)\n{\n" + "".join(s.call() for s in signatures) + "\treturn 0;\n}\n"
              + "#ifdef __cplusplus\n}\n#endif\n")
    return source, signatures


def same(found, expected):
    if isinstance(expected, dict):
        return isinstance(found, dict) and set(found) == set(expected) and all(same(found[key], value) for key, value in expected.items())
    if expected == "" and isinstance(found, str):
        return found == ""
    return found == expected


def differences(trace, signatures):
    """Values that aren't as passed: (function, found, expected)"""
    events = {event.name: event.fields for event in trace.events}
    wrong = [(s.name, s.types, events.get(s.name + "_entry"), s.expected) for s in signatures
             if not same(events.get(s.name + "_entry"), s.expected)]
    for s in signatures:
        left = events.get(s.name + "_exit", {})
        if "duration" not in left or ("ret" in left) != (s.result != "void") or not same(left.get("ret"), s.expected_result):
            wrong.append((s.name, s.structs, s.result, left, s.expected_result))
    return wrong
