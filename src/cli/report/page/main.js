/*
 * main.js - what is said once, and the page's own keys. `page` is for tests.
 */
const sum = key => functions.reduce((total, f) => total + f[key], 0);

function drawCards() {
	const withDuration = sum('calls'), hits = functions.reduce((total, f) => total + (f.hasExit ? 0 : f.hits), 0);
	const processes = new Set(threads.map(thread => thread.pid)).size;
	const cards = [[time(meta.span), 'traced'], [count(withDuration || hits), withDuration ? 'calls' : 'events'],
		[count(functions.filter(f => f.hits || f.calls).length), 'functions'], [count(threads.length), threads.length === 1 ? 'thread' : 'threads'],
		[count(processes), processes === 1 ? 'process' : 'processes'], [count(meta.lost), 'events lost']];
	$('cards').replaceChildren(...cards.map(([value, title]) => {
		const card = element('div', { class: title === 'events lost' && meta.lost ? 'card bad' : 'card' });
		card.append(element('b', {}, value), element('span', {}, title));
		return card;
	}));
}

function drawNotes() {
	const notes = [], cut = sum('cut'), partial = sum('partial');
	if (meta.damaged)
		notes.push('The trace is damaged: the page has what could be read.');
	if (meta.lost)
		notes.push(`${several(meta.lost, 'event was', 'events were')} lost, where the timeline has a hatched gap.` +
			(cut ? ` ${several(cut, 'call was cut by that: it is', 'calls were cut by that: they are')} in no number.` : ''));
	if (meta.lostPackets)
		notes.push(`${several(meta.lostPackets, 'packet of events is', 'packets of events are')} missing in the trace, where the timeline has a hatched gap: nobody ` +
			'knows of which threads.' + (cut && !meta.lost ? ` ${several(cut, 'call was cut by that: it is', 'calls were cut by that: they are')} in no number.` : ''));
	if (isReduced)
		notes.push(`The trace is too large for a page: ${count(meta.left)} calls shorter than ${time(meta.resolution)} are sums per ` +
			`${time(meta.bucket)} of time; the timeline shows how busy that time was. The slowest calls of each function, and ` +
			`${count(meta.calls)} calls in all, are whole. Numbers of the whole trace are exact; of a selection, histogram, heat ` +
			'map and call paths are of the whole calls only, and the total of a recursive function may be too large.');
	const missing = [[sum('unwound'), 'ended without an exit (exceptions, jumps)'], [sum('inside'), 'had not ended'],
		[sum('missed'), 'had returns that could not be watched']].filter(([n]) => n);
	if (missing.length)
		notes.push(missing.map(([n, why]) => `${count(n)} ${n === 1 ? 'call' : 'calls'} ${why}`).join(', ') + ': drawn as outlines, in no number.' +
			(sum('missed') ? ' What is drawn inside a call whose return is unknown may have come after it.' : ''));
	const counted = functions.filter(f => f.counted), off = functions.filter(f => f.off);
	if (counted.length)
		notes.push(`${several(sum('counted'), 'call was', 'calls were')} counted, not recorded (--overhead): ` + counted.slice(0, 8).map(f =>
			`${count(f.counted)} of ${f.name}`).join(', ') + (counted.length > 8 ? ` and of ${counted.length - 8} other functions.` : '.'));
	if (off.length)
		notes.push(`${count(off.length)} ${off.length === 1 ? 'function was' : 'functions were'} off for a time, at most ` +
			`${time(Math.max(...off.map(f => f.off)))}: calls of that time are not known.`);
	if (partial)
		notes.push(partial === 1 ? 'The entry of 1 call is not known: it has no self time and no path.' :
			`The entries of ${count(partial)} calls are not known: they have no self time and no path.`);
	$('notes').replaceChildren(...notes.map(note => element('li', {}, note)));
}

function drawAbout() {
	const begin = new Date(Number(BigInt(meta.first) / 1000000n));
	document.title = `${meta.name} – dyntrace`;
	$('name').textContent = meta.name;
	$('about').textContent = [meta.command || meta.executable, meta.host, begin.toLocaleString()].filter(text => text).join(' · ');
	$('foot').append('A call is drawn from its exit minus its duration to its exit. Total is the time during which a call of the function was on a thread’s ' +
		'stack; self is without the traced functions that it called. Of a selected time, total and self are the parts inside it; other numbers are of ' +
		'whole calls that touch it. Keys: ', element('kbd', {}, '/'), ' search, ', element('kbd', {}, 'Esc'), ' clears the selection, ',
		element('kbd', {}, '←'), ' ', element('kbd', {}, '→'), ' ', element('kbd', {}, '+'), ' ', element('kbd', {}, '-'),
		' in the timeline. More: ', element('code', {}, `dyntrace report ${meta.path}`), '.');
}

function pageKey(event) {
	if (event.key === '/' && event.target.tagName !== 'INPUT') {
		event.preventDefault();
		$('search').focus();
	} else if (event.key === 'Escape') {
		if ($('search').value) {
			$('search').value = table.search = '';
			drawTable();
		}
		$('search').blur();
		chooseAll();
	}
}

async function main() {
	const begun = performance.now();
	await loadData();
	drawAbout();
	drawCards();
	drawNotes();
	initTimeline();
	initTable();
	initSpread();
	initFlame();
	initSlowest();
	choose({ hasTime: false });
	addEventListener('keydown', pageKey);
	const redraw = () => views.forEach(one => one.draw());
	let width = $('lanes').clientWidth;
	addEventListener('resize', redraw);
	new ResizeObserver(() => { /* a scroll bar comes or goes */
		if (width !== $('lanes').clientWidth)
			redraw();
		width = $('lanes').clientWidth;
	}).observe($('lanes'));
	isDark.addEventListener('change', () => {
		colours.length = 0;
		variables.clear();
		redraw();
	});
	globalThis.page = { meta, functions, threads, calls, chosen, choose, chooseTime, chooseFunction, chooseThread, chooseAll, view, show, drawTimeline,
		table, flame, zoomFlame, numbers: () => numbers, count: (from, to, thread) => new Numbers(from, to, thread), findSlowest,
		ready: performance.now() - begun, loaded: performance.now() };
}

main();
