/*
 * flame.js - time per call path, from the first call down (icicle) or up (flame).
 */
const FLAME_ROW = 19;
const flame = { isIcicle: true, zoomed: 0, at: 0, frames: [], nodes: null, weights: [] };

/* Weights of the nodes: own time and that of nodes inside. With a chosen function: of paths through it. */
function weigh() {
	const { nodes } = numbers, weights = new Float64Array(nodes.length), isOn = new Uint8Array(nodes.length);
	for (let i = 1; i < nodes.length; i++)
		isOn[i] = chosen.function === null || nodes[i].function === chosen.function || isOn[nodes[i].parent];
	for (let i = nodes.length - 1; i > 0; i--) {
		weights[i] += isOn[i] ? nodes[i].self : 0;
		weights[nodes[i].parent] += weights[i];
	}
	flame.nodes = nodes;
	flame.weights = weights;
}

/* Places the frames that can be seen, a node and its ancestors first. */
function layOut(width) {
	const { nodes, weights } = flame, frames = [], ancestors = [];
	for (let i = flame.zoomed; i >= 0; i = nodes[i].parent)
		ancestors.unshift(i);
	ancestors.forEach((node, depth) => frames.push({ node, depth, x: 0, width, isAround: node !== flame.zoomed }));
	const place = (node, depth, x, scale) => {
		const inside = [...nodes[node].children.values()].filter(child => weights[child] * scale >= 0.4)
			.sort((a, b) => weights[b] - weights[a]);
		for (const child of inside) {
			frames.push({ node: child, depth, x, width: weights[child] * scale });
			place(child, depth + 1, x, scale);
			x += weights[child] * scale;
		}
	};
	if (weights[flame.zoomed])
		place(flame.zoomed, ancestors.length, 0, width / weights[flame.zoomed]);
	return frames;
}

const flameName = node => node ? functions[flame.nodes[node].function].name : 'all';

function drawFrame(g, frame, height) {
	const y = flame.isIcicle ? frame.depth * FLAME_ROW : height - (frame.depth + 1) * FLAME_ROW;
	frame.y = y;
	g.globalAlpha = frame.isAround ? 0.55 : 1;
	g.fillStyle = frame.node ? colourOf(flame.nodes[frame.node].function) : variable('--line');
	g.fillRect(frame.x, y, Math.max(0.5, frame.width - 0.7), FLAME_ROW - 1.2);
	if (frame.node === flame.at && document.activeElement === $('flame')) {
		g.strokeStyle = variable('--accent');
		g.lineWidth = 2;
		g.strokeRect(frame.x + 1, y + 1, Math.max(1, frame.width - 2.5), FLAME_ROW - 3);
	}
	g.globalAlpha = 1;
	if (frame.width < 26)
		return;
	g.fillStyle = frame.node ? isDark.matches ? '#f4f7fa' : '#10161d' : variable('--ink');
	g.fillText(cutText(flameName(frame.node), frame.width - 8), frame.x + 4, y + FLAME_ROW / 2);
}

function drawFlame() {
	const canvas = $('flame'), width = $('flame-frame').clientWidth;
	if (flame.nodes !== numbers.nodes)
		flame.zoomed = flame.at = 0;
	weigh();
	flame.frames = layOut(width);
	const height = FLAME_ROW * (1 + Math.max(...flame.frames.map(frame => frame.depth)));
	const g = context(canvas, width, height), total = flame.weights[0];
	for (const frame of flame.frames)
		drawFrame(g, frame, height);
	const weight = flame.weights[flame.zoomed];
	$('flame-what').textContent = !total ? 'no calls with a duration' : flame.zoomed ?
		`${flameName(flame.zoomed)}: ${time(weight)}, ${(weight / total * 100).toFixed(1)}% of ${time(total)}` :
		`${time(total)}${chosen.function === null ? '' : ' in paths through the function'} · click zooms, Shift-click selects the function`;
	canvas.dataset.frames = flame.frames.length;
	canvas.dataset.zoomed = flameName(flame.zoomed);
}

function zoomFlame(node) {
	flame.zoomed = flame.at = node;
	drawFlame();
}

const frameAt = event => flame.frames.findLast(frame => event.offsetX >= frame.x && event.offsetX < frame.x + frame.width &&
	event.offsetY >= frame.y && event.offsetY < frame.y + FLAME_ROW);

function flameLines(node) {
	const total = flame.weights[0] || 1, weight = flame.weights[node], { self, calls: n } = flame.nodes[node];
	return node ? [`${time(weight)} (${(weight / total * 100).toFixed(2)}%)`, `self ${time(self)} (${(self / total * 100).toFixed(2)}%)`,
		several(n, 'call')] : [time(weight)];
}

/* Arrow keys go along the frames: deeper, back, to the neighbours. */
function moveFlame(key) {
	const frames = flame.frames, now = frames.find(frame => frame.node === flame.at) || frames[0];
	const deeper = flame.isIcicle ? 'ArrowDown' : 'ArrowUp', back = flame.isIcicle ? 'ArrowUp' : 'ArrowDown';
	const inRow = frames.filter(frame => frame.depth === now.depth).sort((a, b) => a.x - b.x);
	const next = key === deeper ? frames.find(frame => frame.depth === now.depth + 1 && flame.nodes[frame.node].parent === now.node) :
		key === back ? frames.find(frame => frame.node === flame.nodes[now.node].parent) :
			inRow[inRow.indexOf(now) + (key === 'ArrowRight' ? 1 : -1)];
	if (next)
		flame.at = next.node;
	drawFlame();
	$('flame-what').textContent = `${flameName(flame.at)}: ${flameLines(flame.at).join(', ')}`;
}

function flameKey(event) {
	if (event.key.startsWith('Arrow'))
		moveFlame(event.key);
	else if (event.key === 'Enter')
		zoomFlame(flame.at);
	else if (event.key === 'f' && flame.at)
		chooseFunction(flame.nodes[flame.at].function);
	else if (event.key === 'Escape' && flame.zoomed) {
		zoomFlame(0);
		event.stopPropagation();
	} else
		return;
	event.preventDefault();
}

function initFlame() {
	const canvas = $('flame');
	canvas.addEventListener('click', event => {
		const frame = frameAt(event);
		if (frame && event.shiftKey && frame.node)
			chooseFunction(flame.nodes[frame.node].function);
		else if (frame)
			zoomFlame(frame.node);
	});
	canvas.addEventListener('pointermove', event => {
		const frame = frameAt(event);
		if (frame)
			showTip(event, flameName(frame.node), flameLines(frame.node));
		else
			hideTip();
	});
	canvas.addEventListener('pointerleave', hideTip);
	canvas.addEventListener('keydown', flameKey);
	canvas.addEventListener('focus', drawFlame);
	canvas.addEventListener('blur', drawFlame);
	$('flame-all').addEventListener('click', () => zoomFlame(0));
	const turn = isIcicle => {
		flame.isIcicle = isIcicle;
		$('as-icicle').setAttribute('aria-pressed', String(isIcicle));
		$('as-flame').setAttribute('aria-pressed', String(!isIcicle));
		drawFlame();
	};
	$('as-icicle').addEventListener('click', () => turn(true));
	$('as-flame').addEventListener('click', () => turn(false));
	views.push({ draw: drawFlame });
}
