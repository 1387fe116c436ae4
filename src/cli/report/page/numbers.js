/*
 * numbers.js - the numbers of `dyntrace report` for a part of the trace: rules O1 to O3 of
 * src/cli/report/report.h, for the calls that overlap a time, on one thread or on all, and if asked
 * only those of one function and the calls inside them.
 *
 * Goes backward through each thread: a call comes before the calls inside it, so the path of open
 * calls is a stack.
 */
const STEPS = 32; /* per power of two, as src/control/record/histogram.h */

const logarithm = value => value < 2 ** 32 ? 31 - Math.clz32(value) : 63 - Math.clz32(Math.floor(value / 2 ** 32));

class Spread {
	constructor() { this.rows = []; this.count = 0; this.sum = 0; this.max = 0; }

	add(value) {
		const power = value < STEPS ? 0 : logarithm(value) - 4;
		const step = power ? Math.min(STEPS - 1, Math.floor(value / 2 ** (power - 1)) - STEPS) : value;
		(this.rows[power] ||= new Uint32Array(STEPS))[step]++;
		this.count++;
		this.sum += value;
		if (value > this.max)
			this.max = value;
	}

	/* The middle of the bucket below or at which `share` of the values lie. */
	quantile(share) {
		const rank = Math.floor(this.count * share);
		let seen = 0;
		for (let power = 0; power < this.rows.length; power++)
			for (let step = 0; this.rows[power] && step < STEPS; step++) {
				seen += this.rows[power][step];
				if (seen <= rank && seen < this.count || !this.rows[power][step])
					continue;
				const width = power ? 2 ** (power - 1) : 1, low = power ? (STEPS + step) * width : step;
				return Math.min(this.max, Math.floor(low + width / 2));
			}
		return 0;
	}
}

class Numbers {
	constructor(from, to, thread, inside = null) {
		this.from = from;
		this.to = to;
		this.thread = thread; /* null: all */
		this.inside = inside; /* a function; null: all */
		this.isWhole = from <= 0 && to >= meta.span && thread === null && inside === null;
		this.functions = functions.map(() => null);
		this.nodes = [{ function: -1, parent: -1, children: new Map(), calls: 0, total: 0, self: 0 }];
		this.calls = 0;
		this.hits = 0;
		for (const one of threads)
			if (!thread || one === thread)
				this.addThread(one);
		if (isReduced && this.isWhole)
			this.takeTree();
	}

	of(f) {
		return this.functions[f] ||= { function: f, hits: 0, calls: 0, total: 0, self: 0, spread: new Spread(), summed: 0, isSummed: false };
	}

	nodeOf(parent, f) {
		let node = this.nodes[parent].children.get(f);
		if (node === undefined) {
			node = this.nodes.length;
			this.nodes.push({ function: f, parent, children: new Map(), calls: 0, total: 0, self: 0 });
			this.nodes[parent].children.set(f, node);
		}
		return node;
	}

	/* A stack of the open calls: columns, as there are many calls. */
	addThread(thread) {
		const path = this.path = { count: 0, depth: [], call: [], node: [], time: [], children: [], isIn: [] };
		this.onStack = new Uint32Array(functions.length);
		const losses = thread.losses.map(loss => loss.before), { begin, end, depth } = calls;
		for (let i = thread.to - 1; i >= thread.from && end[i] >= this.from; i--) {
			while (losses.length && losses[losses.length - 1] > i) {
				losses.pop();
				this.closeTo(-1);
			}
			if (begin[i] > this.to)
				continue;
			if (path.count && path.depth[path.count - 1] >= depth[i])
				this.closeTo(depth[i] - 1);
			this.take(i, Math.max(0, Math.min(end[i], this.to) - Math.max(begin[i], this.from)));
		}
		this.closeTo(-1);
		if (isReduced)
			this.addSums(thread);
	}

	take(i, time) {
		const kind = calls.kind[i], f = calls.function[i], { path } = this, top = path.count - 1;
		const isIn = this.inside === null || f === this.inside || top >= 0 && path.isIn[top];
		if (!isIn) {
			if (kind !== KIND.HIT && kind !== KIND.PARTIAL)
				this.open(i, time, 0, false);
			return;
		}
		const entry = this.of(f);
		if (kind === KIND.HIT) {
			entry.hits++;
			this.hits++;
			return;
		}
		if (kind <= KIND.PARTIAL) {
			entry.calls++;
			this.calls++;
			entry.spread.add(duration(i));
			if (top >= 0)
				path.children[top] += time;
		}
		if (kind === KIND.PARTIAL) { /* O3: what was inside it isn't known */
			entry.total += time;
			return;
		}
		const number = this.nodeOf(top >= 0 ? path.node[top] : 0, f);
		if (kind === KIND.WHOLE) {
			if (!this.onStack[f]++)
				entry.total += time; /* O1 */
			this.nodes[number].calls++;
			this.nodes[number].total += time;
		}
		this.open(i, time, number, true);
	}

	open(i, time, node, isIn) {
		const { path } = this, at = path.count++;
		path.depth[at] = calls.depth[i];
		path.call[at] = i;
		path.node[at] = node;
		path.time[at] = time;
		path.children[at] = 0;
		path.isIn[at] = isIn;
	}

	/* Ends the open calls that are deeper: all calls inside them have been taken. */
	closeTo(depth) {
		const { path } = this;
		for (; path.count && path.depth[path.count - 1] > depth; path.count--) {
			const top = path.count - 1, i = path.call[top];
			if (!path.isIn[top])
				continue;
			if (calls.kind[i] !== KIND.WHOLE) { /* what was inside it counts as inside the call around it */
				if (top)
					path.children[top - 1] += path.children[top];
				continue;
			}
			let own = Math.max(0, path.time[top] - path.children[top]);
			if (isReduced) /* calls inside it may be in sums */
				own = duration(i) ? calls.self[i] * path.time[top] / duration(i) : 0;
			this.functions[calls.function[i]].self += own;
			this.nodes[path.node[top]].self += own;
			this.onStack[calls.function[i]]--;
		}
	}

	/* Calls that are in sums: their durations are known in sum only. */
	addSums(thread) {
		for (const sum of thread.sums) {
			const begin = sum.bucket * meta.bucket;
			if (begin + meta.bucket <= this.from || begin >= this.to)
				continue;
			if (this.inside !== null && sum.function !== this.inside) /* nobody knows what was around them */
				continue;
			const entry = this.of(sum.function);
			if (functions[sum.function].hasExit) {
				entry.calls += sum.calls;
				this.calls += sum.calls;
			} else {
				entry.hits += sum.calls;
				this.hits += sum.calls;
			}
			entry.total += sum.total;
			entry.self += sum.self;
			entry.summed += sum.total;
			entry.isSummed = true;
		}
	}

	/* The tree of all calls, which was made before calls became sums. */
	takeTree() {
		this.nodes = [this.nodes[0]];
		this.nodes[0].children.clear();
		meta.tree.forEach(([parent, f, count, self], i) => {
			this.nodes.push({ function: f, parent, children: new Map(), calls: count, total: 0, self });
			this.nodes[parent].children.set(f, i + 1);
		});
	}

	/* A row per function. Of the whole trace: as the report has counted. */
	rows() {
		if (this.isWhole)
			return functions.map((f, index) => ({ ...f, function: index, count: f.hasExit ? f.calls : f.hits }))
				.filter(f => f.hits || f.calls);
		return this.functions.filter(f => f && (f.calls || f.hits)).map(f => ({ ...f, name: functions[f.function].name,
			hasExit: functions[f.function].hasExit, count: functions[f.function].hasExit ? f.calls : f.hits,
			mean: f.calls ? Math.floor((f.spread.sum + f.summed) / f.calls) : 0, max: f.spread.max,
			/* of sums, percentiles aren't known */
			p50: f.isSummed ? null : f.spread.quantile(0.5), p90: f.isSummed ? null : f.spread.quantile(0.9),
			p99: f.isSummed ? null : f.spread.quantile(0.99) }));
	}
}
