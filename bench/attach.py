def run(bench, args): return {}, True
