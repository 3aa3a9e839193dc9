// The choice of a namespace: by the list of them, or by name for who may not list them.

import {choice, h, labelled} from '../dom.js';

/** @typedef {import('../main.js').App} App */

const most = 500;
const metadataOnly = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';

/**
 * @param {App} app
 * @param {string} value '' is all
 * @param {(name: string) => void} change
 * @param {AbortSignal} signal
 * @param {boolean} [one] whether it has to be a single one
 */
export async function namespaceField(app, value, change, signal, one) {
	const names = await namespaceNames(app, signal);
	if (names.length === 0) {
		return labelled('Namespace', h('input', {type: 'text', name: 'namespace', value, placeholder: one ? 'default' : 'all', autocapitalize: 'off', spellcheck: 'false',
			on: {change: (/** @type {any} */ e) => change(e.target.value.trim())}}));
	}
	if (value && !names.includes(value)) names.push(value);
	/** @type {(string|[string, string])[]} */
	const options = one ? names : [['', 'All namespaces'], ...names];
	return labelled('Namespace', choice(options, value, change, {name: 'namespace'}));
}

/**
 * @param {App} app
 * @param {AbortSignal} signal
 * @returns {Promise<string[]>} none where the user may not list them
 */
async function namespaceNames(app, signal) {
	try {
		const list = await app.client.get('/api/v1/namespaces', {accept: metadataOnly, signal, query: {limit: most}});
		return list.items.map((/** @type {any} */ item) => item.metadata.name);
	} catch (error) {
		if (signal.aborted) throw error;
		return [];
	}
}
