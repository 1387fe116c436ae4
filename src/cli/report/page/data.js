'use strict';
/*
 * data.js - what the page holds: `meta` as it is written, and `calls`, columns with one element per
 * call, thread by thread, in the order of the calls' ends. src/cli/report/page_calls.c writes them.
 */
const KIND = { WHOLE: 0, PARTIAL: 1, UNWOUND: 2, CUT: 3, INSIDE: 4, HIT: 5, MISSED: 6, UNSEEN: 7 };
const KINDS = 8;
const COLUMN = ['function', 'shape', 'first', 'second', 'self',
	'bucket', 'bucketFunction', 'bucketDepth', 'bucketCalls', 'bucketTotal', 'bucketSelf'];
const meta = JSON.parse(document.getElementById('meta').textContent);
const functions = meta.functions.map(f => ({ name: f[0], hasExit: f[1] === 1, hits: f[2], calls: f[3], total: f[4], self: f[5],
	mean: f[6], p50: f[7], p90: f[8], p99: f[9], max: f[10], cut: f[11], partial: f[12], unwound: f[13], inside: f[14],
	missed: f[15], counted: f[16], off: f[17] }));
const threads = [];
const calls = { count: meta.calls };
const isReduced = meta.left !== undefined;

/* The bytes of a column, inflated. */
async function inflate(name) {
	const element = document.getElementById('column' + COLUMN.indexOf(name)), text = element.textContent;
	element.remove();
	const raw = atob(text), bytes = new Uint8Array(raw.length);
	for (let i = 0; i < raw.length; i++)
		bytes[i] = raw.charCodeAt(i);
	const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Gives the numbers of a column one after the other. */
function reader(bytes) {
	let at = 0;
	return () => {
		let byte = bytes[at++], value = byte & 127, scale = 128;
		while (byte > 127) {
			byte = bytes[at++];
			value += (byte & 127) * scale;
			scale *= 128;
		}
		return value;
	};
}

const signed = value => value % 2 ? -(value + 1) / 2 : value / 2;

/* Undoes page_calls.c's add_record, for one thread. */
function readThread(thread, next) {
	const childBegins = [];
	let endBefore = 0, depth = 0;
	for (let i = thread.from; i < thread.to; i++) {
		const shape = next.shape(), step = Math.floor(shape / KINDS);
		depth += signed(step);
		const first = signed(next.first()), second = signed(next.second()), child = childBegins[depth + 1];
		const isLeaf = child === undefined;
		const begin = isLeaf ? endBefore + first : child - first;
		const end = isLeaf ? begin + second : endBefore + second;
		calls.function[i] = next.function();
		calls.kind[i] = shape % KINDS;
		calls.depth[i] = depth;
		calls.begin[i] = begin;
		calls.end[i] = end;
		if (isReduced)
			calls.self[i] = next.self();
		childBegins[depth + 1] = undefined;
		if (childBegins[depth] === undefined)
			childBegins[depth] = begin;
		endBefore = end;
	}
}

/* Rows of a thread: calls of one depth, which don't overlap. Calls without an entry lie above, as their depth isn't known. */
function makeRows(thread) {
	const rows = [], lanes = [];
	for (let i = thread.from; i < thread.to; i++) {
		if (calls.kind[i] !== KIND.PARTIAL) {
			(rows[calls.depth[i]] ||= { items: [], sums: [] }).items.push(i);
			continue;
		}
		let lane = lanes.find(one => one.last <= calls.begin[i]);
		if (!lane)
			lanes.push(lane = { items: [], sums: [], isPartial: true });
		lane.items.push(i);
		lane.last = calls.end[i];
	}
	for (const sum of thread.sums)
		(rows[sum.depth] ||= { items: [], sums: [] }).sums.push(sum);
	for (let depth = 0; depth < rows.length; depth++)
		rows[depth] ||= { items: [], sums: [] };
	thread.rows = [...lanes.reverse(), ...rows];
	for (const row of thread.rows) {
		row.items = Uint32Array.from(row.items);
		row.busy = busyOf(row.sums);
	}
}

/* How busy each bucket is with calls that are in sums, and with which function most. */
function busyOf(sums) {
	const buckets = new Map();
	for (const sum of sums) {
		const one = buckets.get(sum.bucket);
		if (!one) {
			buckets.set(sum.bucket, { bucket: sum.bucket, total: sum.total, most: sum });
			continue;
		}
		one.total += sum.total;
		one.most = sum.total > one.most.total ? sum : one.most;
	}
	return [...buckets.values()].sort((a, b) => a.bucket - b.bucket);
}

function readSums(next) {
	for (const thread of threads)
		for (let i = 0; i < thread.sumCount; i++)
			thread.sums.push({ bucket: next.bucket(), function: next.bucketFunction(), depth: next.bucketDepth(),
				calls: next.bucketCalls(), total: next.bucketTotal(), self: next.bucketSelf() });
}

async function loadData() {
	const bytes = await Promise.all(COLUMN.map(inflate)), next = {};
	COLUMN.forEach((name, i) => { next[name] = reader(bytes[i]); });
	calls.function = new Uint32Array(calls.count);
	calls.depth = new Uint32Array(calls.count);
	calls.kind = new Uint8Array(calls.count);
	calls.begin = new Float64Array(calls.count);
	calls.end = new Float64Array(calls.count);
	calls.self = isReduced ? new Float64Array(calls.count) : null;
	let from = 0;
	for (const [pid, tid, count, sumCount, name] of meta.threads) {
		threads.push({ index: threads.length, pid, tid, name, from, to: from + count, sumCount, sums: [], losses: [] });
		from += count;
	}
	for (const [thread, before, count, begin, end, isPackets] of meta.losses)
		threads[thread].losses.push({ before, count, begin, end, isPackets: isPackets === 1 });
	if (isReduced)
		readSums(next);
	for (const thread of threads) {
		readThread(thread, next);
		makeRows(thread);
	}
	calls.arguments = new Map(meta.arguments);
}

const duration = i => calls.end[i] - calls.begin[i];
const hasDuration = i => calls.kind[i] <= KIND.PARTIAL;

function threadOf(i) {
	let low = 0, high = threads.length - 1;
	while (low < high) {
		const middle = (low + high + 1) >> 1;
		if (threads[middle].from <= i)
			low = middle;
		else
			high = middle - 1;
	}
	return threads[low];
}
