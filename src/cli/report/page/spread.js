/*
 * spread.js - durations of the chosen function, or of all: a histogram, and a heat map over time.
 */
const LEFT = 52; /* of a heat map's axis */
const heat = { from: 0, drag: null };
const BINS = 4; /* per power of two */

/* The chosen calls with a duration. */
function eachChosen(take) {
	for (const thread of threads) {
		if (chosen.thread && chosen.thread !== thread)
			continue;
		for (let i = thread.from; i < thread.to; i++)
			if (hasDuration(i) && isChosen(i))
				take(i);
	}
}

const binOf = ns => ns < 1 ? 0 : Math.floor(Math.log2(ns) * BINS);
const binBegin = bin => 2 ** (bin / BINS);

function drawFacts() {
	const row = chosen.function === null ? null : numbers.rows().find(one => one.function === chosen.function);
	$('spread-what').textContent = chosen.function === null ? 'all functions' : functions[chosen.function].name;
	const facts = row ? [['calls', count(row.count)], ...(row.hasExit ? ['total', 'self', 'mean', 'p50', 'p90', 'p99', 'max'].map(key =>
		[key, row.calls && row[key] !== null ? time(row[key]) : '–']) : [])] : [['calls with a duration', count(numbers.calls)]];
	$('facts').replaceChildren(...facts.map(([name, value]) => {
		const fact = element('span', {}, name + ' ');
		fact.append(element('b', {}, value));
		return fact;
	}));
}

function drawHistogram(bins, low, high) {
	const canvas = $('histogram'), width = canvas.parentNode.clientWidth, height = 170, g = context(canvas, width, height);
	const most = Math.max(1, ...bins.slice(low, high + 1)), step = (width - 20) / (high - low + 1), ground = height - 24;
	g.fillStyle = chosen.function === null ? variable('--accent') : colourOf(chosen.function);
	for (let bin = low; bin <= high; bin++) {
		const tall = bins[bin] ? Math.max(1.5, bins[bin] / most * (ground - 18)) : 0;
		g.fillRect(10 + (bin - low) * step, ground - tall, Math.max(1, step - 1), tall);
	}
	g.fillStyle = variable('--line');
	g.fillRect(10, ground, width - 20, 1);
	g.fillStyle = variable('--soft');
	let last = -100;
	for (let bin = low; bin <= high; bin++) {
		const x = 10 + (bin - low) * step, text = time(binBegin(bin));
		if (bin % BINS || x - last < 62 || x + text.length * LETTER > width)
			continue;
		g.fillText(text, x, ground + 13);
		g.fillRect(x, ground, 1, 4);
		last = x;
	}
	g.fillText(high < low ? 'no calls with a duration' : several(most, 'call'), 10, 9);
	canvas.dataset.calls = bins.reduce((sum, one) => sum + (one || 0), 0);
}

function heatAxes(g, width, height, low, high, rowHeight) {
	g.fillStyle = variable('--soft');
	g.textAlign = 'right';
	for (let bin = Math.ceil(low / BINS) * BINS, last = -100; bin <= high; bin += BINS) {
		const y = height - 20 - (bin - low) * rowHeight;
		if (Math.abs(last - y) < 16)
			continue;
		g.fillText(time(binBegin(bin)), LEFT - 6, y - 1);
		last = y;
	}
	g.textAlign = 'left';
	const span = numbers.to - numbers.from;
	g.fillText(moment(numbers.from, span / 10), LEFT, height - 9);
	const text = moment(numbers.to, span / 10);
	g.fillText(text, width - 6 - text.length * LETTER, height - 9);
}

function drawHeat(low, high) {
	const canvas = $('heat'), width = canvas.parentNode.clientWidth, height = 200, g = context(canvas, width, height);
	const columns = Math.max(1, Math.min(240, Math.floor((width - LEFT - 6) / 4))), rows = high - low + 1;
	heat.from = numbers.from;
	if (rows < 1)
		return;
	const cells = new Uint32Array(columns * rows), span = numbers.to - numbers.from || 1;
	let most = 1;
	eachChosen(i => {
		const column = Math.max(0, Math.min(columns - 1, Math.floor((calls.end[i] - numbers.from) / span * columns)));
		const cell = ++cells[column * rows + binOf(duration(i)) - low];
		most = cell > most ? cell : most;
	});
	const cellWidth = (width - LEFT - 6) / columns, rowHeight = (height - 28) / rows;
	for (let column = 0; column < columns; column++)
		for (let row = 0; row < rows; row++) {
			const n = cells[column * rows + row], share = n && Math.log(n + 1) / Math.log(most + 1);
			if (!n)
				continue;
			g.fillStyle = isDark.matches ? `hsl(${215 - 170 * share} ${55 + 40 * share}% ${27 + 36 * share}%)` :
				`hsl(${205 + 58 * share} ${80 - 15 * share}% ${84 - 50 * share}%)`;
			g.fillRect(LEFT + column * cellWidth, height - 20 - (row + 1) * rowHeight, cellWidth + 0.3, rowHeight + 0.3);
		}
	heatAxes(g, width, height, low, high, rowHeight);
	drawHeatDrag(g, height);
}

function drawHeatDrag(g, height) {
	if (!heat.drag)
		return;
	g.fillStyle = variable('--accent');
	g.globalAlpha = 0.25;
	g.fillRect(Math.min(...heat.drag), 0, Math.abs(heat.drag[1] - heat.drag[0]), height - 20);
	g.globalAlpha = 1;
}

function drawSpread() {
	const bins = [];
	let low = Infinity, high = -1;
	eachChosen(i => {
		const bin = binOf(duration(i));
		bins[bin] = (bins[bin] || 0) + 1;
		low = bin < low ? bin : low;
		high = bin > high ? bin : high;
	});
	for (let bin = 0; bin <= high; bin++)
		bins[bin] ||= 0;
	drawFacts();
	drawHistogram(bins, low, high);
	drawHeat(low, high);
}

function initSpread() {
	const canvas = $('heat');
	const timeAt = x => numbers.from + (x - LEFT) / (canvas.clientWidth - LEFT - 6) * (numbers.to - numbers.from);
	canvas.addEventListener('pointerdown', event => {
		heat.drag = [event.offsetX, event.offsetX];
		canvas.setPointerCapture(event.pointerId);
	});
	canvas.addEventListener('pointermove', event => {
		if (!heat.drag)
			return;
		heat.drag[1] = event.offsetX;
		drawSpread();
	});
	canvas.addEventListener('pointerup', () => {
		const drag = heat.drag;
		heat.drag = null;
		if (drag && Math.abs(drag[1] - drag[0]) > 3)
			chooseTime(timeAt(drag[0]), timeAt(drag[1]));
		else
			drawSpread();
	});
	views.push({ draw: drawSpread });
}
