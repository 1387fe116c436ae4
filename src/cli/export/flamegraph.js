/* Zoom and search of the flame graph. Click or Enter: zoom; Escape: back; '/': search. */
'use strict';
(() => {
	const MARGIN = 10, WIDTH = 1180, LETTER = 6.7, XHTML = 'http://www.w3.org/1999/xhtml';
	const svg = document.documentElement;
	const frames = [...document.querySelectorAll('.f')].map(g => {
		const [title, rect, text] = g.children;
		return { g, rect, text, name: title.textContent.split('\n')[0],
			 x: +rect.getAttribute('x') - MARGIN, y: +rect.getAttribute('y'),
			 width: +rect.getAttribute('width') };
	});
	const all = frames[0];
	let zoomed = all, wanted = '';

	const label = (name, width) => {
		const letters = Math.floor((width - 6) / LETTER), text = [...name];
		if (width <= 3 * LETTER || letters < 3)
			return '';
		return text.length <= letters ? name : text.slice(0, letters - 2).join('') + '..';
	};

	/* A frame below the zoomed one contains it, and fills the picture. */
	function place(frame) {
		const scaled = length => length / (zoomed.width || 1) * WIDTH, slack = 0.002;
		const isAround = frame.y > zoomed.y && frame.x <= zoomed.x + slack &&
			frame.x + frame.width >= zoomed.x + zoomed.width - slack;
		const isInside = frame.y <= zoomed.y && frame.x >= zoomed.x - slack &&
			frame.x + frame.width <= zoomed.x + zoomed.width + slack;
		frame.g.classList.toggle('hidden', !isAround && !isInside);
		frame.g.classList.toggle('around', isAround);
		if (!isAround && !isInside)
			return;
		const x = isAround ? 0 : scaled(frame.x - zoomed.x);
		const width = isAround ? WIDTH : scaled(frame.width);
		frame.rect.setAttribute('x', MARGIN + x);
		frame.rect.setAttribute('width', width);
		frame.text.setAttribute('x', MARGIN + x + 3);
		frame.text.textContent = label(frame.name, width);
	}

	function zoom(frame) {
		zoomed = frame;
		frames.forEach(place);
		search(wanted);
	}

	/* The share of matching time counts a path once, however many of its frames match. */
	function search(text) {
		wanted = text.toLowerCase();
		const found = frames.filter(frame => frame !== all && wanted &&
			frame.name.toLowerCase().includes(wanted)), matches = new Set(found);
		for (const frame of frames)
			frame.g.classList.toggle('dim', wanted !== '' && !matches.has(frame));
		let time = 0, end = -1;
		for (const frame of found.sort((a, b) => a.x - b.x || b.width - a.width)) {
			const from = Math.max(frame.x, end), to = frame.x + frame.width;
			time += Math.max(0, to - from);
			end = Math.max(end, to);
		}
		shown.textContent = wanted ? `${(time / all.width * 100 || 0).toFixed(2)}% matched` : '';
	}

	const box = document.createElementNS(svg.namespaceURI, 'foreignObject');
	const input = document.createElementNS(XHTML, 'input');
	const shown = document.createElementNS(svg.namespaceURI, 'text');
	for (const [key, value] of [['id', 'find'], ['x', 950], ['y', 8], ['width', 240], ['height', 30]])
		box.setAttribute(key, value);
	input.setAttribute('placeholder', 'Search ( / )');
	input.setAttribute('aria-label', 'Search functions');
	shown.setAttribute('class', 'note');
	shown.setAttribute('id', 'matched');
	shown.setAttribute('x', 950);
	shown.setAttribute('y', 50);
	box.append(input);
	svg.append(box, shown);
	input.addEventListener('input', () => search(input.value));
	for (const frame of frames) {
		frame.g.addEventListener('click', () => zoom(frame));
		frame.g.addEventListener('keydown', event => {
			if (event.key === 'Enter')
				zoom(frame);
		});
	}
	addEventListener('keydown', event => {
		if (event.key === '/' && event.target !== input) {
			event.preventDefault();
			input.focus();
		} else if (event.key === 'Escape') {
			input.value = '';
			wanted = '';
			input.blur();
			zoom(all);
		}
	});
})();
