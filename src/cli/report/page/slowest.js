/*
 * slowest.js - the slowest calls of the selection, with arguments where the page has them.
 */
const SLOWEST = 20;

/* Calls with the longest durations, longest first. */
function findSlowest() {
	const found = [];
	eachChosen(i => {
		if (found.length === SLOWEST && duration(found[SLOWEST - 1]) >= duration(i))
			return;
		let at = found.length;
		while (at && duration(found[at - 1]) < duration(i))
			at--;
		found.splice(at, 0, i);
		found.length = Math.min(found.length, SLOWEST);
	});
	return found;
}

function slowRow(i) {
	const row = element('tr', { tabindex: '0' });
	row.append(element('td', {}, time(duration(i))), element('td', { class: 'name text' }, functions[calls.function[i]].name),
		element('td', { class: 'text' }, clock(calls.begin[i])), element('td', { class: 'text' }, threadText(threadOf(i))),
		element('td', { class: 'arguments text' }, calls.arguments.get(i) ?? ''));
	const go = () => {
		const margin = Math.max(20, duration(i) * 0.15), thread = threadOf(i);
		show(calls.begin[i] - margin, calls.end[i] + margin);
		$('lanes').scrollTop = thread.y;
		$('timeline').scrollIntoView({ block: 'center' });
	};
	row.addEventListener('click', go);
	row.addEventListener('keydown', event => {
		if (event.key === 'Enter')
			go();
	});
	return row;
}

function drawSlowest() {
	const found = findSlowest();
	$('slowest').tBodies[0].replaceChildren(...found.map(slowRow));
	$('slowest-what').textContent = found.length ? `the ${found.length} slowest${chosen.function === null && !chosen.hasTime &&
		!chosen.thread ? '' : ' of the selection'} · click shows the call in the timeline; the ten slowest of each function have arguments` : 'no calls with a duration';
}

function initSlowest() {
	const head = element('tr');
	head.append(...['duration', 'function', 'begin', 'thread', 'arguments -> result'].map((title, i) =>
		element('th', { scope: 'col', class: i ? 'text' : '', style: 'padding:6px 9px' }, title)));
	$('slowest').tHead.append(head);
	views.push({ draw: drawSlowest });
}
