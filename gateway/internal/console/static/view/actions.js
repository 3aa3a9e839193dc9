// What can be done to an object, by its kind.

import {pathOf} from '../discovery.js';
import {button, choice, h, labelled} from '../dom.js';
import {listHref} from '../route.js';
import {ask} from './dialog.js';

/** @typedef {import('../main.js').App} App */
/** @typedef {import('../discovery.js').Kind} Kind */
/** @typedef {{app: App, kind: Kind, object: any, signal: AbortSignal}} Target */

export const mergePatch = 'application/merge-patch+json';
const fieldManager = 'howdah-console';

/** Kinds whose pods come anew when their template is changed. */
const rolledOut = new Set(['apps/deployments', 'apps/statefulsets', 'apps/daemonsets']);

/**
 * The buttons for an object.
 * @param {Target} target
 */
export function actions(target) {
	const {kind, object} = target;
	const key = kind.group ? `${kind.group}/${kind.resource}` : kind.resource;
	const paused = object.spec?.paused, suspended = object.spec?.suspend, cordoned = object.spec?.unschedulable;
	return [
		kind.subresources.has('scale') && kind.verbs.has('patch') && button('Scale', () => scale(target)),
		rolledOut.has(key) && button('Restart', () => restart(target)),
		key === 'apps/deployments' && toggle(target, paused ? 'Resume' : 'Pause', {spec: {paused: !paused}},
			paused ? 'Changes of the template are rolled out again.' : 'Changes of the template wait until it is resumed.'),
		(key === 'batch/cronjobs' || key === 'batch/jobs') && toggle(target, suspended ? 'Resume' : 'Suspend', {spec: {suspend: !suspended}},
			suspended ? 'It runs again.' : key === 'batch/jobs' ? 'Its pods are ended, and come back when it is resumed.' : 'No more jobs are made until it is resumed.'),
		key === 'nodes' && toggle(target, cordoned ? 'Uncordon' : 'Cordon', {spec: {unschedulable: !cordoned}},
			cordoned ? 'It takes new pods again.' : 'It takes no new pods; those that run stay.'),
		kind.verbs.has('delete') && button('Delete', () => remove(target), {class: 'danger'}),
	];
}

/** @param {Target} target */
export function targetPath({kind, object}, subresource = '') {
	return pathOf(kind, object.metadata.namespace, object.metadata.name, subresource || undefined);
}

/**
 * @param {Target} target
 * @param {any} body
 * @param {string} [type]
 * @param {string} [subresource]
 */
export function patch(target, body, type = mergePatch, subresource = '') {
	return target.app.client.call('PATCH', targetPath(target, subresource), {body, type, query: {fieldManager}});
}

/** @param {Target} target */
function title({kind, object}) {
	return `${kind.kind} ${object.metadata.name}`;
}

/**
 * @param {Target} target
 * @param {string} label
 * @param {any} body
 * @param {string} effect
 */
function toggle(target, label, body, effect) {
	return button(label, () => ask(`${label} ${title(target)}?`, [h('p', null, effect)], label, () => patch(target, body), {signal: target.signal}));
}

/** @param {Target} target */
function scale(target) {
	const replicas = h('input', {type: 'number', name: 'replicas', min: 0, max: 100000, required: true, value: target.object.spec?.replicas ?? 1});
	ask(`Scale ${title(target)}`, [labelled('Replicas', replicas)], 'Scale',
		() => patch(target, {spec: {replicas: Number(replicas.value)}}, mergePatch, 'scale'), {signal: target.signal});
	replicas.select();
}

/** @param {Target} target */
function restart(target) {
	const annotations = {'kubectl.kubernetes.io/restartedAt': new Date().toISOString().replace(/\.\d+Z$/, 'Z')};
	ask(`Restart ${title(target)}?`, [h('p', null, 'Its pods are replaced one after the other, as its strategy says.')], 'Restart',
		() => patch(target, {spec: {template: {metadata: {annotations}}}}), {signal: target.signal});
}

/** @param {Target} target */
function remove(target) {
	const {app, kind, object, signal} = target;
	let policy = 'Background';
	ask(`Delete ${title(target)}?`, [
		h('p', null, object.metadata.namespace ? `It is in the namespace ${object.metadata.namespace}.` : 'It belongs to the whole cluster.', ' This cannot be undone.'),
		labelled('What it owns', choice([['Background', 'is deleted after it'], ['Foreground', 'is deleted before it'], ['Orphan', 'stays']], policy, (value) => { policy = value; }, {name: 'policy'})),
	], 'Delete', async () => {
		await app.client.call('DELETE', targetPath(target), {body: {
			apiVersion: 'v1', kind: 'DeleteOptions', propagationPolicy: policy, preconditions: {uid: object.metadata.uid},
		}});
		location.hash = listHref(kind);
	}, {danger: true, signal});
}
