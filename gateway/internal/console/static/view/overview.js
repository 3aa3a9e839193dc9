// The cluster at a glance.

import {pathOf} from '../discovery.js';
import {append, fill, h, problem} from '../dom.js';
import {cpu, memory, mood, quantity} from '../format.js';
import {pause} from '../api.js';
import {listHref} from '../route.js';
import {liveTable} from './table.js';

/** @typedef {import('../main.js').App} App */

const everySeconds = 10;
const pageSize = 500;
/** Pods that are counted; a larger cluster says that it has more. */
const mostPods = 5000;
const asTable = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';

/** @type {import('../main.js').Page} */
export async function overviewPage(app, main, _route, signal) {
	document.title = 'Overview · howdah';
	const nodes = h('section', {class: 'card', id: 'nodes'}), pods = h('section', {class: 'card', id: 'pods'}), use = h('section', {class: 'card', id: 'use'});
	const namespaces = h('section', {class: 'card', id: 'namespaces'});
	append(main, h('div', {class: 'title'}, h('h1', null, 'Overview')), h('div', {class: 'cards'}, nodes, pods, use, namespaces));
	const events = app.discovery.find('', 'events');
	if (events) {
		const {element} = liveTable(app, {
			path: pathOf(events, ''), kind: events, namespaces: true, selection: {fieldSelector: 'type=Warning'}, hide: ['Type'], newestFirst: true, empty: 'No warnings',
		}, signal);
		main.append(h('section', {class: 'card wide', id: 'warnings'}, h('h2', null, 'Warnings'), element));
	}
	while (!signal.aborted) {
		if (!document.hidden) {
			await Promise.all([
				part(nodes, 'Nodes', () => nodesPart(app, signal), signal),
				part(use, 'Resources', () => usePart(app, signal), signal),
				podParts(app, pods, namespaces, signal),
			]);
		}
		await pause(everySeconds * 1000, signal);
	}
}

/**
 * Fills a card, or says why it cannot be.
 * @param {HTMLElement} card
 * @param {string} title
 * @param {() => Promise<any[]>} make
 * @param {AbortSignal} signal
 */
async function part(card, title, make, signal) {
	try {
		const children = await make();
		if (!signal.aborted) fill(card, h('h2', null, title), ...children);
	} catch (error) {
		if (!signal.aborted) fill(card, h('h2', null, title), problem(error));
	}
}

/**
 * @param {App} app
 * @param {AbortSignal} signal
 */
async function nodesPart(app, signal) {
	const {items} = await app.client.get('/api/v1/nodes', {signal, query: {limit: pageSize}});
	const ready = items.filter(isReady).length;
	const cordoned = items.filter((/** @type {any} */ n) => n.spec?.unschedulable).length;
	const away = items.filter((/** @type {any} */ n) => !isReady(n));
	const kind = app.discovery.find('', 'nodes');
	return [
		h('p', {class: 'figure'}, h('a', {href: kind ? listHref(kind) : '#/'}, `${ready} of ${items.length}`), h('span', null, ' ready')),
		cordoned > 0 && h('p', {class: 'hint'}, `${cordoned} cordoned`),
		away.length > 0 && h('p', null, h('span', {class: 'badge bad'}, 'NotReady'), ' ', away.slice(0, 8).map((/** @type {any} */ n) => n.metadata.name).join(', ')),
	];
}

/** @param {any} node */
function isReady(node) {
	return node.status?.conditions?.some((/** @type {any} */ c) => c.type === 'Ready' && c.status === 'True') ?? false;
}

/**
 * What nodes have, and what is used of it where metrics are served.
 * @param {App} app
 * @param {AbortSignal} signal
 */
async function usePart(app, signal) {
	const {items} = await app.client.get('/api/v1/nodes', {signal, query: {limit: pageSize}});
	const sum = (/** @type {any[]} */ list, /** @type {(item: any) => any} */ of) => list.reduce((total, item) => total + quantity(of(item)), 0);
	const cores = sum(items, (n) => n.status?.allocatable?.cpu), bytes = sum(items, (n) => n.status?.allocatable?.memory);
	const served = app.discovery.find('metrics.k8s.io', 'nodes');
	const measured = served ? (await app.client.get('/apis/metrics.k8s.io/v1beta1/nodes', {signal})).items : [];
	if (!measured.length) {
		return [h('p', {class: 'figure'}, cpu(cores), h('span', null, ' CPUs')), h('p', {class: 'figure'}, memory(bytes), h('span', null, ' memory')),
			h('p', {class: 'hint'}, `What is used is not known: ${served ? 'no node has been measured' : 'metrics.k8s.io is not served here'}.`)];
	}
	return [
		meter('CPU', sum(measured, (n) => n.usage?.cpu), cores, cpu),
		meter('Memory', sum(measured, (n) => n.usage?.memory), bytes, memory),
		measured.length < items.length && h('p', {class: 'hint'}, `${measured.length} of ${items.length} nodes have been measured.`),
	];
}

/**
 * @param {string} label
 * @param {number} used
 * @param {number} of
 * @param {(n: number) => string} format
 */
function meter(label, used, of, format) {
	const text = `${format(used)} of ${format(of)}`;
	return h('div', {class: 'meter'}, h('span', null, label), h('meter', {min: 0, max: of || 1, value: used, 'aria-label': `${label}: ${text}`}), h('span', {class: 'hint'}, text));
}

/**
 * @param {App} app
 * @param {HTMLElement} pods
 * @param {HTMLElement} namespaces
 * @param {AbortSignal} signal
 */
async function podParts(app, pods, namespaces, signal) {
	/** @type {Map<string, number>} */
	const states = new Map(), spaces = new Map();
	let total = 0, rest = '';
	const kind = app.discovery.find('', 'pods');
	const count = (/** @type {Map<string, number>} */ map, /** @type {string} */ key) => map.set(key, (map.get(key) ?? 0) + 1);
	const read = async () => {
		do {
			const table = await app.client.get('/api/v1/pods', {accept: asTable, signal, query: {limit: pageSize, continue: rest}});
			const column = table.columnDefinitions.findIndex((/** @type {any} */ c) => c.name === 'Status');
			for (const row of table.rows) {
				count(states, String(row.cells[column]));
				count(spaces, row.object.metadata.namespace);
			}
			total += table.rows.length;
			rest = table.metadata.continue ?? '';
		} while (rest && total < mostPods);
	};
	let failed = null;
	await part(pods, 'Pods', async () => {
		try {
			await read();
		} catch (error) {
			failed = error;
			throw error;
		}
		const all = [...states].sort((a, b) => b[1] - a[1]);
		return [
			h('p', {class: 'figure'}, h('a', {href: kind ? listHref(kind) + '?namespace=' : '#/'}, `${total}${rest ? '+' : ''}`), h('span', null, ' pods')),
			h('div', {class: 'bar', 'aria-hidden': 'true'}, all.map(([state, n]) => {
				const piece = h('span', {class: mood(state)});
				piece.style.flexGrow = String(n);
				return piece;
			})),
			h('ul', {class: 'tally'}, all.map(([state, n]) => h('li', null, h('span', {class: `badge ${mood(state)}`}, state), ' ', n))),
		];
	}, signal);
	await part(namespaces, 'Namespaces', async () => {
		const {items} = await app.client.get('/api/v1/namespaces', {signal, query: {limit: pageSize}});
		return [h('ul', {class: 'tally'}, items.map((/** @type {any} */ n) => h('li', null,
			h('a', {href: kind ? listHref(kind, {namespace: n.metadata.name}) : '#/'}, n.metadata.name), ' ',
			n.status?.phase !== 'Active' && h('span', {class: 'badge warn'}, n.status?.phase),
			failed ? null : h('span', {class: 'hint'}, `${spaces.get(n.metadata.name) ?? 0} pods`))))];
	}, signal);
}
