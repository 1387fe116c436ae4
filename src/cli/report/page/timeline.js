/*
 * timeline.js - calls of each thread over time, from all of it to a nanosecond.
 *
 * Only rows on the screen are drawn. Calls narrower than a pixel share one bar, which is as dark as
 * the time is busy; the next one is found by a binary search, so a picture takes as long as it has
 * pixels, however many calls there are. Losses are gaps with their count.
 */
const ROW = 17, TITLE = 22, PIXEL_CALLS = 64;
const view = { from: 0, to: 1, drag: null, drawn: 0, last: 0 };
let isWaiting = false;

/* Asking the page for it takes long while it is drawn. */
let laneWidth = 0;
const widthOf = () => laneWidth ||= $('lanes').clientWidth;
const xOf = ns => (ns - view.from) / (view.to - view.from) * widthOf();
const timeOf = x => view.from + x / widthOf() * (view.to - view.from);

/* Each thread's place from top to bottom. */
function placeThreads() {
	let y = 0;
	for (const thread of threads) {
		thread.y = y;
		thread.isHidden = chosen.thread !== null && chosen.thread !== thread;
		thread.height = thread.isHidden ? 0 : TITLE + Math.max(1, thread.rows.length) * ROW + 4;
		y += thread.height;
	}
	return Math.max(y, 40);
}

/* The first item of a row that ends at `ns` or later. */
function firstAfter(items, ns, from) {
	let low = from, high = items.length;
	while (low < high) {
		const middle = (low + high) >> 1;
		if (calls.end[items[middle]] < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const isDim = f => chosen.function !== null && f !== chosen.function ||
	table.search !== '' && !functions[f].name.toLowerCase().includes(table.search.toLowerCase());

/* A call that is wide enough to be seen by itself. Without a duration: only an outline, open at its end. */
function drawCall(g, i, x, width, y) {
	const f = calls.function[i], from = Math.max(-2, x), shown = Math.min(widthOf() + 2, x + width) - from;
	g.fillStyle = colourOf(f);
	g.globalAlpha = isDim(f) ? 0.18 : hasDuration(i) ? 1 : 0.3;
	g.fillRect(from, y, Math.max(1, shown - 0.6), ROW - 2);
	if (!hasDuration(i)) {
		g.globalAlpha = 0.9;
		g.strokeStyle = g.fillStyle;
		g.setLineDash([4, 3]);
		g.strokeRect(from + 0.5, y + 0.5, Math.max(1, shown - 1.6), ROW - 3);
		g.setLineDash([]);
	}
	if (shown > 28) {
		g.globalAlpha = isDim(f) ? 0.5 : 1;
		g.fillStyle = hasDuration(i) ? isDark.matches ? '#f4f7fa' : '#10161d' : variable('--ink');
		const left = Math.max(from, 0), name = functions[f].name;
		const text = hasDuration(i) ? `${name} ${time(duration(i))}` : name;
		g.fillText(cutText(text.length * LETTER < shown - 6 ? text : name, shown - (left - from) - 6), left + 3, y + ROW / 2 - 0.5);
	}
}

/* Narrow calls from `at` on that begin in one pixel; gives the first one behind them. */
function drawPixel(g, items, at, x, y) {
	const end = timeOf(x + 1), scale = widthOf() / (view.to - view.from);
	let behind = at, busy = 0, isBright = false;
	for (; behind < items.length && behind - at < PIXEL_CALLS && calls.begin[items[behind]] < end; behind++) {
		const width = duration(items[behind]) * scale;
		if (width >= 1)
			break;
		busy += width;
		isBright ||= !isDim(calls.function[items[behind]]);
	}
	if (behind - at === PIXEL_CALLS) { /* too many to look at each of them */
		const next = firstAfter(items, end, behind);
		busy *= (next - at) / PIXEL_CALLS;
		behind = Math.max(next, behind);
	}
	g.fillStyle = colourOf(calls.function[items[at]]);
	g.globalAlpha = isBright ? Math.min(1, 0.35 + 0.65 * busy) : 0.15;
	g.fillRect(x, y, 1, ROW - 2);
	return behind;
}

function drawRow(g, row, y) {
	const { items } = row, scale = widthOf() / (view.to - view.from);
	let at = firstAfter(items, view.from, 0);
	while (at < items.length && calls.begin[items[at]] <= view.to) {
		const i = items[at], x = (calls.begin[i] - view.from) * scale, width = duration(i) * scale;
		view.drawn++;
		if (width >= 1) {
			drawCall(g, i, x, width, y);
			at++;
		} else {
			at = Math.max(at + 1, drawPixel(g, items, at, Math.floor(x), y));
		}
	}
	g.globalAlpha = 1;
}

/* Sums of calls below the page's resolution: as high as the bucket is busy. */
function drawSums(g, row, y) {
	const scale = widthOf() / (view.to - view.from), width = Math.max(0.6, meta.bucket * scale);
	for (const { bucket, total, most } of row.busy) {
		const x = (bucket * meta.bucket - view.from) * scale;
		if (x + width < 0)
			continue;
		if (x > widthOf())
			break;
		const high = Math.max(1.5, Math.min(1, total / meta.bucket) * (ROW - 2));
		g.fillStyle = colourOf(most.function);
		g.globalAlpha = isDim(most.function) ? 0.12 : 0.5;
		g.fillRect(x, y + ROW - 2 - high, width, high);
	}
	g.globalAlpha = 1;
}

function drawLoss(g, thread, loss, y) {
	const x = xOf(loss.begin), width = Math.max(2, xOf(loss.end) - x), height = thread.height - TITLE - 4;
	if (x + width < 0 || x > widthOf())
		return;
	g.save();
	g.beginPath();
	g.rect(Math.max(x, 0), y + TITLE, Math.min(width, widthOf() - x), height);
	g.clip();
	g.fillStyle = variable('--panel');
	g.fillRect(Math.max(x, 0), y + TITLE, Math.min(width, widthOf()), height);
	g.strokeStyle = variable('--loss');
	g.lineWidth = 1;
	g.globalAlpha = 0.6;
	g.beginPath();
	const from = Math.max(x, -height) - height, to = Math.min(x + width, widthOf()) + height;
	for (let line = from - from % 7; line < to; line += 7) {
		g.moveTo(line, y + TITLE + height);
		g.lineTo(line + height, y + TITLE);
	}
	g.stroke();
	g.restore();
	g.fillStyle = variable('--loss');
	g.fillText(loss.isPackets ? `${several(loss.count, 'packet')} lost` : `${count(loss.count)} lost`, Math.max(2, Math.min(x, widthOf() - 90)), y + TITLE - 7);
}

function drawThread(g, thread, top, height) {
	const y = thread.y - top;
	if (thread.isHidden || y > height || y + thread.height < 0)
		return;
	g.fillStyle = variable('--faint');
	g.fillRect(0, y, widthOf(), TITLE - 3);
	g.fillStyle = chosen.thread === thread ? variable('--accent') : variable('--ink');
	g.fillText(cutText(threadText(thread), widthOf() - 8), 6, y + TITLE / 2 - 1);
	thread.rows.forEach((row, number) => {
		const rowY = y + TITLE + number * ROW;
		if (rowY < -ROW || rowY > height)
			return;
		if (row.sums.length)
			drawSums(g, row, rowY);
		drawRow(g, row, rowY);
	});
	for (const loss of thread.losses)
		drawLoss(g, thread, loss, y);
}

/* Round steps of 1, 2 or 5. */
function stepOf(span, most) {
	const raw = span / most, size = 10 ** Math.floor(Math.log10(raw));
	return size * [1, 2, 5, 10].find(factor => factor * size >= raw);
}

function drawRuler() {
	const width = widthOf(), g = context($('ruler'), width, 30);
	const step = Math.max(1, stepOf(view.to - view.from, Math.max(1, width / 110)));
	g.fillStyle = variable('--soft');
	for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
		g.fillRect(Math.round(xOf(at)), 22, 1, 8);
		g.fillText(moment(at, step), xOf(at) + 4, 14);
	}
	shade(g, 30);
}

/* The time that is being selected, and what is outside the one that was. */
function shade(g, height) {
	g.globalAlpha = 0.22;
	if (view.drag?.isSelect) {
		g.fillStyle = variable('--accent');
		g.fillRect(Math.min(view.drag.x, view.drag.to), 0, Math.abs(view.drag.to - view.drag.x), height);
	}
	if (chosen.hasTime) {
		g.globalAlpha = 0.6;
		g.fillStyle = variable('--ground');
		g.fillRect(0, 0, xOf(chosen.from), height);
		g.fillRect(xOf(chosen.to), 0, widthOf(), height);
		g.globalAlpha = 1;
		g.fillStyle = variable('--accent');
		g.fillRect(xOf(chosen.from) - 1, 0, 1.5, height);
		g.fillRect(xOf(chosen.to), 0, 1.5, height);
	}
	g.globalAlpha = 1;
}

function drawTimeline() {
	const begun = performance.now(), lanes = $('lanes'), whole = placeThreads();
	const height = Math.min(whole, 620, Math.max(160, Math.floor(innerHeight * 0.62)));
	lanes.style.height = `${height}px`;
	$('lanes-height').style.height = `${Math.max(0, whole - height)}px`;
	laneWidth = 0;
	const g = context($('timeline'), widthOf(), height);
	view.drawn = 0;
	for (const thread of threads)
		drawThread(g, thread, lanes.scrollTop, height);
	shade(g, height);
	drawRuler();
	view.last = performance.now() - begun;
	$('timeline-what').textContent = `${time(view.to - view.from)} shown of ${time(meta.span)} · wheel zooms, drag moves, Shift-drag selects`;
	$('timeline').dataset.from = view.from;
	$('timeline').dataset.to = view.to;
}

/* Draws once per picture of the screen. */
function redrawTimeline() {
	if (isWaiting)
		return;
	isWaiting = true;
	requestAnimationFrame(() => {
		isWaiting = false;
		drawTimeline();
	});
}

function show(from, to) {
	const end = Math.max(meta.span, 10), span = Math.min(Math.max(to - from, 10), end);
	view.from = Math.max(0, Math.min(from, end - span));
	view.to = view.from + span;
	redrawTimeline();
}

function zoomTimeline(factor, x = widthOf() / 2) {
	const at = timeOf(x);
	show(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

const moveTimeline = share => show(view.from + (view.to - view.from) * share, view.to + (view.to - view.from) * share);

/* Finds the call, event or loss below the pointer. */
function find(event) {
	const y = event.offsetY + $('lanes').scrollTop, at = timeOf(event.offsetX), slack = (view.to - view.from) / widthOf();
	const thread = threads.find(one => !one.isHidden && y >= one.y && y < one.y + one.height);
	if (!thread)
		return {};
	const loss = thread.losses.find(one => at >= one.begin - slack && at <= one.end + slack);
	const row = thread.rows[Math.floor((y - thread.y - TITLE) / ROW)];
	if (y < thread.y + TITLE || !row)
		return { thread, loss, isTitle: y < thread.y + TITLE };
	const index = firstAfter(row.items, at - slack, 0), call = row.items[index];
	const sum = row.sums.find(one => at >= one.bucket * meta.bucket && at < (one.bucket + 1) * meta.bucket);
	return call !== undefined && calls.begin[call] <= at + slack ? { thread, call } : { thread, loss, sum };
}

const WHY = ['', 'its entry is not in the trace', 'ended without an exit (an exception, or a jump): no duration',
	'cut by a loss of events: no duration', 'had not ended: no duration', 'an event, no call', 'its return could not be watched: no duration',
	'no exit recorded: no duration'];

function tipFor(event) {
	const { thread, call, loss, sum, isTitle } = find(event);
	if (call !== undefined)
		showTip(event, functions[calls.function[call]].name, [hasDuration(call) ? time(duration(call)) : '',
			WHY[calls.kind[call]], `at ${moment(calls.begin[call], (view.to - view.from) / 1000)} (${clock(calls.begin[call])})`,
			threadText(thread), calls.arguments.get(call) || ''].filter(line => line));
	else if (loss)
		showTip(event, `${several(loss.count, loss.isPackets ? 'packet' : 'event')} lost`, [`within ${time(loss.end - loss.begin)}`,
			loss.isPackets ? `of this thread or of others: ${threadText(thread)}` : threadText(thread)]);
	else if (sum)
		showTip(event, functions[sum.function].name, [`${several(sum.calls, 'call')} shorter than ${time(meta.resolution)}`,
			`${time(sum.total)} of ${time(meta.bucket)}`]);
	else if (isTitle)
		showTip(event, threadText(thread), ['click selects the thread']);
	else
		hideTip();
}

function timelineKey(event) {
	const keys = { ArrowLeft: () => moveTimeline(-0.2), ArrowRight: () => moveTimeline(0.2), '+': () => zoomTimeline(0.5),
		'=': () => zoomTimeline(0.5), '-': () => zoomTimeline(2), ArrowUp: () => { $('lanes').scrollTop -= 3 * ROW; },
		ArrowDown: () => { $('lanes').scrollTop += 3 * ROW; }, Home: () => show(0, meta.span), 0: () => show(0, meta.span),
		Enter: () => chooseTime(view.from, view.to) };
	if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey)
		return;
	event.preventDefault();
	keys[event.key]();
}

function endDrag(event) {
	const drag = view.drag;
	view.drag = null;
	if (!drag)
		return;
	if (drag.isSelect && Math.abs(drag.to - drag.x) > 3)
		chooseTime(timeOf(drag.x), timeOf(drag.to));
	else if (!drag.hasMoved && drag.canvas === $('timeline')) {
		const { thread, call, sum, isTitle } = find(event);
		if (isTitle)
			chooseThread(thread);
		else if (call !== undefined || sum)
			chooseFunction(sum && call === undefined ? sum.function : calls.function[call]);
	}
	redrawTimeline();
}

/* Drags on the ruler, and with Shift, select; others move. */
function initDrags(canvas) {
	canvas.addEventListener('pointerdown', event => {
		view.drag = { canvas, x: event.offsetX, to: event.offsetX, at: event.offsetX, isSelect: event.shiftKey || canvas === $('ruler'),
			hasMoved: false };
		canvas.setPointerCapture(event.pointerId);
	});
	canvas.addEventListener('pointermove', event => {
		const { drag } = view;
		if (!drag) {
			if (canvas === $('timeline'))
				tipFor(event);
			return;
		}
		drag.to = event.offsetX;
		drag.hasMoved ||= Math.abs(drag.to - drag.x) > 3;
		if (!drag.isSelect) {
			moveTimeline((drag.at - event.offsetX) / widthOf());
			drag.at = event.offsetX;
		}
		redrawTimeline();
	});
	canvas.addEventListener('pointerup', endDrag);
	canvas.addEventListener('pointercancel', () => { view.drag = null; });
	canvas.addEventListener('pointerleave', hideTip);
}

function initTimeline() {
	view.to = Math.max(meta.span, 10);
	initDrags($('timeline'));
	initDrags($('ruler'));
	$('timeline').addEventListener('keydown', timelineKey);
	/* the wheel scrolls a page that is taller than the screen, unless the timeline is being used */
	$('timeline').addEventListener('wheel', event => {
		if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
			moveTimeline((event.deltaX || event.deltaY) / 800);
		else if (event.ctrlKey || document.activeElement === $('timeline'))
			zoomTimeline(Math.exp(event.deltaY * 0.002), event.offsetX);
		else
			return;
		event.preventDefault();
	}, { passive: false });
	$('lanes').addEventListener('scroll', redrawTimeline);
	$('zoom-in').addEventListener('click', () => zoomTimeline(0.5));
	$('zoom-out').addEventListener('click', () => zoomTimeline(2));
	$('zoom-all').addEventListener('click', () => show(0, meta.span));
	$('take-time').addEventListener('click', () => chooseTime(view.from, view.to));
	views.push({ draw: drawTimeline });
}
