// Who changed an object, when, how, and what: howdah's history of it.

import {append, button, fill, h, notice, problem} from '../dom.js';
import {age} from '../format.js';
import {targetPath} from './actions.js';

/** @typedef {import('./object.js').Context} Context */

const pageSize = 30;

/** @param {Context} context */
export async function historyTab(context) {
	const {app, signal, panel} = context;
	const list = h('ol', {class: 'history'}), foot = h('div', {class: 'table-foot'});
	append(panel, list, foot);

	/** @param {string} before a revision, or '' for the newest */
	const page = async (before) => {
		const {versions = []} = await app.client.get(`/howdah/v1/history${targetPath(context)}`, {signal, query: {limit: pageSize, before}});
		append(list, versions.map((/** @type {any} */ v) => version(app.traceURL, v)));
		const last = versions.at(-1);
		fill(foot, versions.length === pageSize && last ? button('Earlier', async (event) => {
			/** @type {any} */ (event.currentTarget).disabled = true;
			try {
				await page(String(last.revision));
			} catch (error) {
				if (!signal.aborted) append(foot, problem(error));
			}
		}) : null);
		if (versions.length === 0 && !before) append(list, notice('The log knows of no change: it keeps an hour, or what --history-retention says.'));
	};
	await page('');
}

/**
 * @param {string} traceURL
 * @param {any} v a version
 */
function version(traceURL, v) {
	return h('li', {class: 'card'},
		h('div', {class: 'version'},
			v.operation && h('span', {class: `badge ${v.operation === 'DELETED' ? 'bad' : v.operation === 'CREATED' ? 'good' : 'warn'}`}, String(v.operation).toLowerCase()),
			h('strong', null, v.verb ?? ''), h('span', null, v.user ?? ''),
			v.fieldManager && h('span', {class: 'hint'}, v.fieldManager),
			h('span', {class: 'grow'}),
			v.traceId && trace(traceURL, v.traceId),
			h('span', {class: 'hint'}, `revision ${v.revision}`),
			v.time && h('time', {datetime: v.time, title: v.time}, `${age(v.time, Date.now())} ago`)),
		v.diff && h('details', null, h('summary', null, 'Changes'), diff(v.diff)));
}

/**
 * @param {string} template
 * @param {string} id
 */
function trace(template, id) {
	if (!template) return h('code', {title: 'Trace'}, id);
	return h('a', {href: template.replaceAll('{traceID}', encodeURIComponent(id)), target: '_blank', rel: 'noopener noreferrer'}, 'Trace');
}

/** @param {string} text a unified diff */
function diff(text) {
	return h('pre', {class: 'code', tabindex: 0}, text.split('\n').map((line) => h('span', {class: line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : ''}, `${line}\n`)));
}
