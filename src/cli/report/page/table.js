/*
 * table.js - functions: sorted by any column, searched by name.
 */
const COLUMNS = [
	{ key: 'name', title: 'function', isText: true },
	{ key: 'count', title: 'calls', show: row => count(row.count) },
	{ key: 'total', title: 'total', isTime: true, isShare: true },
	{ key: 'self', title: 'self', isTime: true, isShare: true },
	{ key: 'mean', title: 'mean', isTime: true },
	{ key: 'p50', title: 'p50', isTime: true },
	{ key: 'p99', title: 'p99', isTime: true },
	{ key: 'max', title: 'max', isTime: true },
];
const ROWS_MAX = 1000;
const table = { sort: 'total', isDown: true, search: '', rows: [] };

function sortRows(rows) {
	const { sort, isDown } = table, sign = isDown ? -1 : 1;
	return rows.sort((a, b) => (a[sort] < b[sort] ? -sign : a[sort] > b[sort] ? sign : 0) || (a.name < b.name ? -1 : 1));
}

function drawHead() {
	const cells = COLUMNS.map(column => {
		const cell = element('th', { scope: 'col', 'data-key': column.key });
		if (table.sort === column.key)
			cell.setAttribute('aria-sort', table.isDown ? 'descending' : 'ascending');
		const button = element('button', {}, column.title);
		button.addEventListener('click', () => {
			table.isDown = table.sort === column.key ? !table.isDown : !column.isText;
			table.sort = column.key;
			drawTable();
			$('functions').querySelector(`th[data-key=${column.key}] button`).focus();
		});
		cell.append(button);
		return cell;
	});
	const row = element('tr');
	row.append(...cells);
	$('functions').tHead.replaceChildren(row);
}

function cellOf(row, column, most) {
	if (column.isText)
		return element('td', { class: 'name', title: row.name }, row.name);
	const isKnown = column.key === 'count' || row.hasExit && row.calls > 0 && row[column.key] !== null;
	const cell = element('td', {}, !isKnown ? '–' : column.show ? column.show(row) : time(row[column.key]));
	if (column.isShare && isKnown) {
		cell.className = 'share';
		cell.style.setProperty('--share', `${(row[column.key] / (most[column.key] || 1) * 100).toFixed(1)}%`);
	}
	return cell;
}

function rowOf(row, most) {
	const made = element('tr', { 'aria-selected': String(chosen.function === row.function), tabindex: '0' });
	made.append(...COLUMNS.map(column => cellOf(row, column, most)));
	made.addEventListener('click', () => chooseFunction(row.function));
	made.addEventListener('keydown', event => {
		if (event.key === 'Enter' || event.key === ' ') {
			event.preventDefault();
			const at = [...made.parentNode.children].indexOf(made);
			chooseFunction(row.function);
			$('functions').tBodies[0].children[at]?.focus();
		} else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
			event.preventDefault();
			(event.key === 'ArrowDown' ? made.nextSibling : made.previousSibling)?.focus();
		}
	});
	return made;
}

/* Numbers inside the chosen function, which take a while: made once. */
const inner = { of: null, function: null, numbers: null };

function shownNumbers() {
	if (chosen.function === null)
		return numbers;
	if (inner.of !== numbers || inner.function !== chosen.function)
		Object.assign(inner, { of: numbers, function: chosen.function,
			numbers: new Numbers(numbers.from, numbers.to, numbers.thread, chosen.function) });
	return inner.numbers;
}

function drawTable() {
	const words = table.search.toLowerCase();
	const rows = shownNumbers().rows(), found = sortRows(rows.filter(row => row.name.toLowerCase().includes(words)));
	const most = { total: 1, self: 1 };
	for (const row of rows) {
		most.total = Math.max(most.total, row.total);
		most.self = Math.max(most.self, row.self);
	}
	table.rows = found;
	drawHead();
	$('functions').tBodies[0].replaceChildren(...found.slice(0, ROWS_MAX).map(row => rowOf(row, most)));
	$('table-what').textContent = `${words ? `${count(found.length)} of ` : ''}${several(rows.length, 'function')}` +
		(found.length > ROWS_MAX ? `, the first ${count(ROWS_MAX)} shown` : '') + (numbers.isWhole ? '' : ' in the selection') +
		(chosen.function === null ? '' : `, inside calls of ${functions[chosen.function].name}`);
}

function initTable() {
	$('search').addEventListener('input', () => {
		table.search = $('search').value;
		drawTable();
		drawTimeline();
	});
	views.push({ draw: drawTable });
}
