// A live table on the page.

import {button, fill, h, problem} from '../dom.js';
import {age, mood} from '../format.js';
import {LiveTable} from '../livetable.js';
import {objectHref} from '../route.js';

/** @typedef {import('../main.js').App} App */
/** @typedef {import('../discovery.js').Kind} Kind */
/** @typedef {import('../livetable.js').Row} Row */
/** @typedef {import('../livetable.js').Column} Column */

/**
 * @typedef {object} TableOptions
 * @property {string} path
 * @property {Kind} kind what the rows are
 * @property {import('../livetable.js').Selection} [selection]
 * @property {boolean} [namespaces] whether rows are of several
 * @property {(row: Row) => boolean} [matches] which rows to show
 * @property {string[]} [hide] names of columns to leave out
 * @property {boolean} [newestFirst] by their cells' age
 * @property {string} [empty] what to say where there is nothing
 */

/** The most rows that are drawn. */
const maxRows = 5000;

/**
 * Builds a table that follows what it shows until the signal ends it.
 * @param {App} app
 * @param {TableOptions} options
 * @param {AbortSignal} signal
 * @returns {{element: HTMLElement, draw: () => void}} draw is to be called when what matches has changed
 */
export function liveTable(app, options, signal) {
	let pending = false, all = false;
	/** @type {{column: number, down: boolean}|null} */
	let order = null;
	const live = new LiveTable(app.client, options.path, options.selection ?? {}, later);
	const head = h('thead'), body = h('tbody'), foot = h('div', {class: 'table-foot'});
	const trouble = h('div', {'aria-live': 'polite'});
	const element = h('div', {class: 'live'}, trouble, h('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': options.kind.kind}, h('table', null, head, body)), foot);
	/** @type {WeakMap<Row, HTMLElement>} rows that are drawn: an unchanged one is not drawn again */
	let drawn = new WeakMap();

	/** Draws at the next frame, however often it is asked to until then. */
	function later() {
		if (pending || signal.aborted) return;
		pending = true;
		requestAnimationFrame(() => {
			pending = false;
			if (!signal.aborted) draw();
		});
	}

	const columns = () => live.columns.map((column, index) => ({column, index}))
		.filter(({column}) => (all || column.priority === 0) && !options.hide?.includes(column.name));

	function draw() {
		const shown = columns();
		const rows = [...live.rows.values()].filter(options.matches ?? (() => true));
		rows.sort(comparison());
		fill(head, h('tr', null,
			options.namespaces && heading('Namespace', -1),
			shown.map(({column, index}) => heading(column.name, index, column.description))));
		body.replaceChildren(...rows.slice(0, maxRows).map((row) => {
			let tr = drawn.get(row);
			if (!tr) drawn.set(row, tr = line(row, shown));
			return tr;
		}));
		refreshAges();
		trouble.replaceChildren(...(live.error && live.state !== 'live' ? [problem(live.error)] : []));
		drawFoot(rows.length);
	}

	/** @param {number} count */
	function drawFoot(count) {
		const words = {loading: 'Loading…', live: 'Live', away: 'Reconnecting…', failed: 'Not followed'};
		fill(foot,
			h('span', {class: `state ${live.state}`, role: 'status'}, words[live.state]),
			live.state !== 'loading' && live.state !== 'failed' && h('span', null, count === 0 ? options.empty ?? 'Nothing here' : `${count} shown${live.remaining ? `, at least ${live.remaining} more` : ''}`),
			live.continue && button('Load more', async (event) => {
				/** @type {any} */ (event.currentTarget).disabled = true;
				try {
					await live.more(signal);
				} catch (error) {
					if (!signal.aborted) trouble.append(problem(error));
				}
			}),
			live.columns.some((c) => c.priority > 0) && h('label', {class: 'inline'}, h('input', {type: 'checkbox', checked: all, on: {change: () => {
				all = !all;
				drawn = new WeakMap();
				draw();
			}}}), 'All columns'));
	}

	/**
	 * @param {string} name
	 * @param {number} column
	 * @param {string} [description]
	 */
	function heading(name, column, description) {
		const here = order?.column === column ? order : null;
		return h('th', {scope: 'col', title: description, 'aria-sort': here ? (here.down ? 'descending' : 'ascending') : undefined},
			button(name, () => {
				order = {column, down: here ? !here.down : false};
				draw();
			}, {class: 'sort'}));
	}

	/** @returns {(a: Row, b: Row) => number} */
	function comparison() {
		const created = (/** @type {Row} */ row) => row.object?.metadata?.creationTimestamp ?? '';
		if (!order) {
			if (options.newestFirst) return (a, b) => created(b).localeCompare(created(a));
			const key = (/** @type {Row} */ row) => `${row.object?.metadata?.namespace ?? ''}/${row.object?.metadata?.name ?? ''}`;
			return (a, b) => key(a).localeCompare(key(b));
		}
		const {column, down} = order, sign = down ? -1 : 1;
		if (column >= 0 && live.columns[column]?.name === 'Age') return (a, b) => sign * created(b).localeCompare(created(a));
		const cell = (/** @type {Row} */ row) => String(column < 0 ? row.object?.metadata?.namespace ?? '' : row.cells[column] ?? '');
		return (a, b) => sign * cell(a).localeCompare(cell(b), undefined, {numeric: true});
	}

	/**
	 * @param {Row} row
	 * @param {{column: Column, index: number}[]} shown
	 */
	function line(row, shown) {
		const m = row.object?.metadata ?? {};
		const cells = shown.map(({column, index}) => {
			const text = String(row.cells[index] ?? '');
			if (column.format === 'name' || column.name === 'Name') {
				return h('th', {scope: 'row'}, h('a', {href: objectHref(options.kind, m.namespace, m.name)}, text || m.name));
			}
			if (column.name === 'Age' && m.creationTimestamp) return h('td', {'data-created': m.creationTimestamp});
			if (['Status', 'Type', 'Phase'].includes(column.name) && (column.name !== 'Type' || options.kind.resource === 'events')) return h('td', null, h('span', {class: `badge ${mood(text)}`}, text));
			return h('td', {class: column.name === 'Message' ? 'long' : undefined}, text);
		});
		return h('tr', {'data-name': m.name, class: m.deletionTimestamp ? 'going' : undefined}, options.namespaces && h('td', null, m.namespace ?? ''), cells);
	}

	function refreshAges() {
		const now = Date.now();
		for (const cell of body.querySelectorAll('[data-created]')) cell.textContent = age(cell.dataset.created, now);
	}

	const timer = setInterval(refreshAges, 5000);
	signal.addEventListener('abort', () => clearInterval(timer));
	live.run(signal);
	draw();
	return {element, draw};
}

