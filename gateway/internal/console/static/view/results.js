// Manifests are applied by howdah's transactions: server-side apply, and what was made of each.

import {h} from '../dom.js';
import {objectHref} from '../route.js';

/** @typedef {import('../main.js').App} App */

export const transactions = '/howdah/v1/transactions';
export const query = {fieldManager: 'howdah-console', fieldValidation: 'Strict'};

/**
 * What a transaction did, by item.
 * @param {App} app
 * @param {any} result a TransactionResult
 * @param {boolean} dry
 */
export function results(app, result, dry) {
	return h('ul', {class: 'results'}, (result.items ?? []).map((/** @type {any} */ item) => {
		const {namespace, name} = item.object?.metadata ?? {namespace: item.namespace, name: item.name};
		const kind = app.discovery.ofReference(item.object?.apiVersion ?? '', item.object?.kind ?? '');
		const text = `${item.object?.kind ?? item.resource} ${namespace ? `${namespace}/` : ''}${name}`;
		return h('li', null, h('span', {class: `badge ${item.result === 'unchanged' ? 'warn' : 'good'}`}, item.result),
			' ', kind && !dry ? h('a', {href: objectHref(kind, namespace, name)}, text) : text, dry && ' (not done: a check)',
			(item.warnings ?? []).map((/** @type {string} */ w) => h('div', {class: 'notice warn'}, w)));
	}));
}

/**
 * What was wrong, by item.
 * @param {any} error
 */
export function refusals(error) {
	const causes = error.details?.causes ?? [];
	return h('div', {class: 'notice bad', role: 'alert'},
		h('strong', null, error.code ? `${error.code} ${error.reason}` : 'Failed'), ' ', causes.length > 1 ? 'Nothing was done:' : error.message,
		causes.length > 1 && h('ul', null, causes.map((/** @type {any} */ c) => h('li', null, `${position(c.field)}: ${c.message}`))));
}

/** @param {string} field as in items[2] */
function position(field) {
	const match = /^items\[(\d+)\]/.exec(field ?? '');
	return match ? `Document ${Number(match[1]) + 1}` : field;
}
