/*
 * state.js - the selection, which restricts all views: a time, a thread, a function. A view that
 * wants to hear of changes adds itself to `views`.
 */
const chosen = { from: 0, to: 0, hasTime: false, thread: null, function: null };
const views = []; /* { draw(): all anew } */
let numbers = null; /* of the chosen time and thread */
let whole = null;

function recount() {
	if (!chosen.hasTime && !chosen.thread)
		numbers = whole ||= new Numbers(0, Math.max(1, meta.span), null);
	else
		numbers = new Numbers(chosen.hasTime ? chosen.from : 0, chosen.hasTime ? chosen.to : Math.max(1, meta.span), chosen.thread);
}

/* Changes part of the selection: choose({ thread }). */
function choose(change) {
	const isCounted = 'from' in change || 'thread' in change || 'hasTime' in change;
	Object.assign(chosen, change);
	if (isCounted)
		recount();
	drawChips();
	for (const view of views)
		view.draw();
}

const chooseTime = (from, to) => choose({ hasTime: true, from: Math.max(0, Math.min(from, to)), to: Math.min(meta.span, Math.max(from, to)) });
const chooseFunction = f => choose({ function: chosen.function === f ? null : f });
const chooseThread = thread => choose({ thread: chosen.thread === thread ? null : thread });
const chooseAll = () => choose({ hasTime: false, thread: null, function: null });

/* Is a call in the selection? */
const isChosen = i => (chosen.function === null || calls.function[i] === chosen.function) &&
	calls.end[i] >= numbers.from && calls.begin[i] <= numbers.to;

function chip(text, change) {
	const button = element('button', { class: 'chip', title: 'Remove this restriction' }, `${text}  ✕`);
	button.addEventListener('click', () => choose(change));
	return button;
}

function drawChips() {
	const chips = [];
	if (chosen.hasTime)
		chips.push(chip(`time: ${moment(chosen.from, (chosen.to - chosen.from) / 100 || 1)} + ${time(chosen.to - chosen.from)}`, { hasTime: false }));
	if (chosen.thread)
		chips.push(chip(`thread: ${threadText(chosen.thread)}`, { thread: null }));
	if (chosen.function !== null)
		chips.push(chip(`function: ${functions[chosen.function].name}`, { function: null }));
	if (chips.length)
		chips.push(element('span', { class: 'hint' }, `${several(numbers.calls + numbers.hits, 'call')} in this time and thread`));
	else
		chips.push(element('span', { class: 'hint' }, 'Everything is shown. Select a time, a thread or a function in any view to restrict all of them.'));
	$('chosen').replaceChildren(...chips);
}
