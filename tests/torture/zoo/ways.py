"""How programs of the zoo are traced. Most arguments of functions are no pointers to strings: the agent reads them by plain loads,
with a handler in front of the program's own, or learns that they can't be read."""
FEW = ["--mode", "overwrite", "--buffer-size", "4M"]  # events on disk
GATHERED = ["-t", "string:first:arg0", "-t", "string:second:arg1", "-t", "backtrace:4", *FEW]
WAYS = {"entries": FEW, "exits": ["-e", *FEW], "counted": ["-e", "--tracer", "count"], "gathered": GATHERED,
        "gathered-exits": ["-e", *GATHERED]}
