"""The numbers of `dyntrace report` once more, from what babeltrace2 reads: packets by thread and begin, a stack of calls."""
import collections
import pathlib
import re

from harness import messages


class Packet:
    def __init__(self, begin, context, lost):
        self.who = (context["pid"], context["tid"])
        self.begin = self.end = begin
        self.lost, self.events = lost, []
        self.process = context.get("procname", "")
        self.exits, self.exit_names = [], []  # (duration, ns), and their events


def read_fates(text):
    """What the recorder says of a function's calls without an exit: a count each."""
    return {key: int(count) for key, count in map(str.split, text.split(", "))}


def fates_of(path):
    """Of the functions of which calls end unseen (O10), from the text of the metadata."""
    fates = {}
    for metadata in pathlib.Path(path).rglob("metadata"):
        text = metadata.read_text(errors="surrogateescape")
        names = dict(re.findall(r'name = "(.*)_entry";\n\tid = (\d+);', text))
        said = dict(re.findall(r'\tfates_(\d+) = "(.*)";', text))
        fates.update({name: read_fates(said[number]) for name, number in names.items() if number in said})
    return fates


def packets_of(path):
    """Packets with events or a loss, by thread and begin; the names of all kinds of events; and where packets are missing."""
    packets, current, lost, names, gaps = [], {}, collections.Counter(), set(), []
    for kind, stream, *rest in messages(path):
        if kind == "stream":
            names |= set(rest[1])
        elif kind == "lost":
            lost[stream] += rest[0]
        elif kind == "missing":
            gaps.append(tuple(rest))
        elif kind == "end":
            current[stream].end = rest[0]
        elif kind == "packet":
            current[stream] = Packet(*rest, lost.pop(stream, 0))
            packets.append(current[stream])
        elif kind == "event":
            name, cycles, ns, frequency, payload, *_ = rest
            payload = payload or {}
            duration = payload.get("duration")
            if duration is not None:
                current[stream].exits.append((duration, ns))
                current[stream].exit_names.append(name)
            current[stream].events.append((name, cycles, duration, frequency, payload))
    return sorted((packet for packet in packets if packet.events or packet.lost),
                  key=lambda packet: (packet.who, packet.begin)), names, gaps


class Calls:
    """All numbers of a trace. O1, O2 and O3 of src/cli/report/report.h, by intervals instead of chains."""

    def __init__(self, path):
        self.numbers = collections.defaultdict(collections.Counter)
        self.durations = collections.defaultdict(list)
        self.edges = collections.defaultdict(collections.Counter)
        self.paths = collections.defaultdict(collections.Counter)
        self.lost = self.events = 0
        self.calls, self.hits = [], []  # every call that ended, and every entry or bare event
        packets, names, self.gaps = packets_of(path)
        self.fates, self.unseen = fates_of(path), collections.Counter()
        self.lost_packets = sum(count for _, _, count in self.gaps)
        self.with_exit = {name[:-5] for name in names if name.endswith("_exit")}
        threads = collections.OrderedDict()
        for packet in packets:
            threads.setdefault(packet.who, []).append(packet)
        for one in threads.values():
            self.read_thread(one)
        for durations in self.durations.values():
            durations.sort()
        for name, fates in self.fates.items():
            self.settle(self.numbers[name], fates, self.unseen[name])

    @staticmethod
    def settle(numbers, fates, left):
        """(O10) Calls without an exit are what the recorder counted; the rest is inside."""
        for key in ("missed", "unwound"):
            numbers[key] = min(left, fates[key])
            left -= numbers[key]
        numbers["inside"] = left

    def misses_packets(self, begin, end):
        """Files have packets of several threads: a missing one may be any thread's that has no packet of its own at that time."""
        return any(gap_begin <= end and begin <= gap_end for gap_begin, gap_end, _ in self.gaps)

    def read_thread(self, packets):
        stack, cut_before, cut_open, end_before = [], None, collections.Counter(), 0
        for packet in packets:
            self.lost += packet.lost
            if packet.lost or self.misses_packets(end_before, packet.begin):
                for call in stack:
                    self.numbers[call["name"]]["cut"] += 1
                    cut_open[call["name"]] += 1
                stack, cut_before = [], packet.begin
            end_before = packet.end
            for name, cycles, duration, frequency, fields in packet.events:
                self.events += 1
                event = {"at": self.events, "fields": fields, "who": packet.who, "process": packet.process}
                if name.endswith("_exit") and duration is not None:
                    self.exit(stack, name[:-5], cycles, duration, frequency, cut_before, cut_open, event)
                    continue
                function = name[:-6] if name.endswith("_entry") else name
                self.numbers[function]["hits"] += 1
                self.hits.append({"function": function, "entry": event, "exit": None,
                                  "caller": stack[-1]["name"] if stack else None})
                if self.fates.get(function, {}).get("exits") == 0:
                    self.unseen[function] += 1
                    continue
                if function in self.fates:
                    self.end_unseen(stack, function)
                if name.endswith("_entry") and function in self.with_exit:
                    stack.append({"name": function, "children": 0, "same": 0, "event": event})
        is_cut = self.misses_packets(end_before, 1 << 64)
        for call in stack:
            if call["name"] in self.fates and not is_cut:
                self.unseen[call["name"]] += 1
            else:
                self.numbers[call["name"]]["cut" if is_cut else "inside"] += 1

    def end_unseen(self, stack, function):
        """(O10) A call is over if only calls that end unseen are inside it, and its function is called again."""
        sure = max((i for i, call in enumerate(stack) if call["name"] not in self.fates), default=-1)
        again = max((i for i, call in enumerate(stack) if call["name"] == function), default=-1)
        while sure < again < len(stack):
            self.drop(stack)

    def drop(self, stack):
        """Ends the innermost call without an exit."""
        gone = stack.pop()
        if gone["name"] in self.fates:
            self.unseen[gone["name"]] += 1
        else:
            self.numbers[gone["name"]]["unwound"] += 1
        if stack:
            stack[-1]["children"] += gone["children"]
        for outer in reversed(stack):
            if outer["name"] == gone["name"]:
                outer["same"] += gone["same"]
                break

    def exit(self, stack, name, cycles, duration, frequency, cut_before, cut_open, event):
        numbers = self.numbers[name]
        if not any(call["name"] == name for call in stack):
            if cut_before is not None and cycles - duration * frequency / 1e9 < cut_before:
                if cut_open[name]:
                    cut_open[name] -= 1
                else:
                    numbers["cut"] += 1
                return
            numbers["partial"] += 1
            self.unseen[name] -= self.unseen[name] > 0
            call = None
        else:
            while stack[-1]["name"] != name:
                self.drop(stack)
            call = stack.pop()
        self.calls.append({"function": name, "entry": call and call["event"], "exit": event, "duration": duration,
                           "self": call and max(0, duration - call["children"]), "caller": stack[-1]["name"] if stack else None})
        numbers["calls"] += 1
        numbers["max"] = max(numbers["max"], duration)
        self.durations[name].append(duration)
        numbers["total"] += max(0, duration - (call["same"] if call else 0))
        if call:
            own = max(0, duration - call["children"])
            numbers["self"] += own
            path = self.paths[tuple(outer["name"] for outer in stack) + (name,)]
            path["calls"] += 1
            path["total"] += duration
            path["self"] += own
            for outer in reversed(stack):
                if outer["name"] == name:
                    outer["same"] += duration
                    break
        if stack:
            stack[-1]["children"] += duration
            self.edges[stack[-1]["name"], name]["calls"] += 1
            self.edges[stack[-1]["name"], name]["total"] += duration
