// The revisions of a Deployment, and the way back to one.

import {pathOf} from '../discovery.js';
import {button, fill, h, problem} from '../dom.js';
import {age} from '../format.js';
import {patch} from './actions.js';
import {ask} from './dialog.js';

/** @typedef {import('./object.js').Context} Context */

const revisionKey = 'deployment.kubernetes.io/revision';
const jsonPatch = 'application/json-patch+json';

/** @param {Context} context */
export function revisions(context) {
	const {app, kind, object, signal, changed} = context;
	const sets = app.discovery.find('apps', 'replicasets');
	if (kind.group !== 'apps' || kind.resource !== 'deployments' || !sets) return null;
	const section = h('section', {class: 'card', hidden: true, id: 'revisions'});
	let known = '';
	const draw = async (/** @type {any} */ now) => {
		const revision = now.metadata.annotations?.[revisionKey] ?? '';
		if (revision === known) return;
		known = revision;
		try {
			const {items} = await app.client.get(pathOf(sets, now.metadata.namespace), {signal, query: {labelSelector: labels(now)}});
			const own = items.filter((/** @type {any} */ s) => s.metadata.ownerReferences?.some((/** @type {any} */ o) => o.uid === now.metadata.uid))
				.sort((/** @type {any} */ a, /** @type {any} */ b) => number(b) - number(a));
			section.hidden = own.length < 2;
			fill(section, h('h2', null, 'Revisions'), table(context, now, own));
		} catch (error) {
			if (signal.aborted) return;
			section.hidden = false;
			fill(section, problem(error));
		}
	};
	draw(object);
	changed(draw);
	return section;
}

/** @param {any} deployment */
function labels(deployment) {
	return Object.entries(deployment.spec.selector?.matchLabels ?? {}).map(([k, v]) => `${k}=${v}`).join(',');
}

/** @param {any} set */
function number(set) {
	return Number(set.metadata.annotations?.[revisionKey] ?? 0);
}

/**
 * @param {Context} context
 * @param {any} deployment as it is now
 * @param {any[]} sets the newest first
 */
function table(context, deployment, sets) {
	return h('div', {class: 'scroll'}, h('table', null,
		h('thead', null, h('tr', null, ['Revision', 'Images', 'Age', ''].map((name) => h('th', {scope: 'col'}, name)))),
		h('tbody', null, sets.map((set) => h('tr', null,
			h('th', {scope: 'row'}, number(set)),
			h('td', null, (set.spec.template.spec.containers ?? []).map((/** @type {any} */ c) => c.image).join(', ')),
			h('td', null, age(set.metadata.creationTimestamp, Date.now())),
			h('td', null, String(number(set)) === deployment.metadata.annotations?.[revisionKey] ? 'now' : button('Roll back', () => back(context, deployment, set))))))));
}

/**
 * @param {Context} context
 * @param {any} deployment
 * @param {any} set
 */
function back({app, kind, signal}, deployment, set) {
	ask(`Back to revision ${number(set)}?`, [h('p', null, 'The pods of the Deployment are replaced by those of that revision.')], 'Roll back', () => {
		const template = structuredClone(set.spec.template);
		delete template.metadata?.labels?.['pod-template-hash'];
		return patch({app, kind, object: deployment, signal}, [
			{op: 'test', path: '/metadata/uid', value: deployment.metadata.uid},
			{op: 'replace', path: '/spec/template', value: template},
		], jsonPatch);
	}, {signal});
}
