// A collection: any kind, by the server's own columns.

import {pathOf, titleOf} from '../discovery.js';
import {append, h, labelled, notice} from '../dom.js';
import {emptyOf, listHref} from '../route.js';
import {namespaceField} from './namespaces.js';
import {liveTable} from './table.js';

/** @type {import('../main.js').Page} */
export async function listPage(app, main, route, signal) {
	const [, group, version, resource] = route.parts;
	const kind = app.discovery.find(emptyOf(group ?? '-'), resource ?? '', version);
	if (!kind) {
		main.append(notice(`The cluster serves no ${resource} of ${group} ${version}.`, 'warn'));
		return;
	}
	document.title = `${titleOf(kind)} · howdah`;
	if (route.query.has('namespace')) app.session.namespace = route.query.get('namespace') ?? '';
	const namespace = kind.namespaced ? app.session.namespace : '';
	const labels = route.query.get('labels') ?? '', fields = route.query.get('fields') ?? '';
	let search = '';
	const {element, draw} = liveTable(app, {
		path: pathOf(kind, namespace), kind, namespaces: kind.namespaced && !namespace, selection: {labelSelector: labels, fieldSelector: fields},
		matches: (row) => !search || `${row.object?.metadata?.namespace} ${row.cells.join(' ')}`.toLowerCase().includes(search),
		newestFirst: kind.resource === 'events',
	}, signal);

	/** @param {Record<string, string>} changed */
	const go = (changed) => {
		const query = {labels, fields, ...changed};
		location.hash = listHref(kind, query) + (changed.namespace === '' ? `${query.labels || query.fields ? '&' : '?'}namespace=` : '');
	};
	const selector = (/** @type {string} */ label, /** @type {string} */ name, /** @type {string} */ value, /** @type {string} */ example) => labelled(label,
		h('input', {type: 'text', name, value, placeholder: example, autocapitalize: 'off', spellcheck: 'false', on: {change: (/** @type {any} */ e) => go({[name]: e.target.value.trim()})}}));
	append(main,
		h('div', {class: 'title'}, h('h1', null, titleOf(kind)), h('span', {class: 'hint'}, kind.group ? `${kind.group}/${kind.version}` : kind.version)),
		h('div', {class: 'toolbar'},
			kind.namespaced && await namespaceField(app, namespace, (name) => go({namespace: name}), signal),
			selector('Labels', 'labels', labels, 'app=web,tier!=db'),
			selector('Fields', 'fields', fields, 'metadata.name=web'),
			labelled('Search', h('input', {type: 'search', name: 'search', placeholder: 'in what is shown', on: {input: (/** @type {any} */ e) => {
				search = e.target.value.trim().toLowerCase();
				draw();
			}}}))),
		element);
}
