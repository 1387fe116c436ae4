/*
 * text.js - times and counts for people, and elements. Foreign text only ever becomes textContent.
 */
const $ = id => document.getElementById(id);
const count = value => Math.round(value).toLocaleString('en-US');
const several = (value, one, more = one + 's') => `${count(value)} ${Math.round(value) === 1 ? one : more}`;

/* Three digits, as options/time_text.h: "12 ns", "1.23 us". */
function time(ns) {
	if (ns < 1000)
		return `${Math.round(ns)} ns`;
	const units = [[1e3, 'us'], [1e6, 'ms'], [1e9, 's']];
	for (const [size, unit] of units) {
		const value = ns / size, digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
		if (value < 999.5 || unit === 's')
			return unit === 's' && value >= 120 ? longTime(value) : `${value.toFixed(digits)} ${unit}`;
	}
}

function longTime(seconds) {
	const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60, rest = Math.floor(seconds % 60);
	return (hours ? `${hours} h ` : '') + `${minutes} min ` + (hours ? '' : `${rest} s`);
}

/* A point in time since the trace's begin, with as many digits as `step` needs. */
function moment(ns, step) {
	const [size, unit] = step >= 1e8 ? [1e9, 's'] : step >= 1e5 ? [1e6, 'ms'] : step >= 1e2 ? [1e3, 'us'] : [1, 'ns'];
	const digits = Math.max(0, Math.min(3, Math.ceil(Math.log10(size / step) - 1e-9)));
	return `${(ns / size).toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })} ${unit}`;
}

/* The clock at a point in time: "09:03:30.118123456". */
function clock(ns) {
	const at = BigInt(meta.first) + BigInt(Math.round(ns)), date = new Date(Number(at / 1000000n));
	return date.toTimeString().slice(0, 8) + '.' + String(at % 1000000000n).padStart(9, '0');
}

function element(tag, attributes, ...children) {
	const made = document.createElement(tag);
	for (const [key, value] of Object.entries(attributes || {}))
		if (key in made && typeof value !== 'string')
			made[key] = value;
		else
			made.setAttribute(key, value);
	made.append(...children.map(String));
	return made;
}

const threadText = thread => `${thread.name || 'process'} ${thread.pid}` + (thread.tid === thread.pid ? '' : ` · thread ${thread.tid}`);

/* Colours of functions: hues far apart for neighbours. */
const isDark = matchMedia('(prefers-color-scheme: dark)');
const hue = f => f * 137.508 % 360;
const colour = f => `hsl(${hue(f).toFixed(0)} ${isDark.matches ? '42% 46%' : '58% 68%'})`;
const colours = [];
const colourOf = f => colours[f] ||= colour(f);
const variables = new Map();
function variable(name) {
	let value = variables.get(name);
	if (!value)
		variables.set(name, value = getComputedStyle(document.documentElement).getPropertyValue(name).trim());
	return value;
}

/* Makes a canvas as sharp as the screen; gives its context, in CSS pixels. */
function context(canvas, width, height) {
	const ratio = devicePixelRatio || 1;
	if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		canvas.style.width = `${width}px`;
		canvas.style.height = `${height}px`;
	}
	const g = canvas.getContext('2d');
	g.setTransform(ratio, 0, 0, ratio, 0, 0);
	g.clearRect(0, 0, width, height);
	g.font = '11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
	g.textBaseline = 'middle';
	return g;
}

const LETTER = 6.63; /* width in that font */
function cutText(text, width) {
	const letters = Math.floor(width / LETTER);
	return letters < 3 ? '' : text.length <= letters ? text : text.slice(0, letters - 1) + '…';
}

/* Shows a title and lines at the mouse. */
function showTip(event, title, lines) {
	const tip = $('tip');
	tip.replaceChildren(element('b', {}, title), document.createTextNode(lines.length ? '\n' + lines.join('\n') : ''));
	const box = tip.getBoundingClientRect();
	tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
	tip.style.top = `${event.clientY + 18 + box.height > innerHeight ? Math.max(4, event.clientY - box.height - 12) : event.clientY + 18}px`;
}
const hideTip = () => $('tip').replaceChildren();
