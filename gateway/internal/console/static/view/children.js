// What belongs to an object: what it owns, and what it selects.

import {pathOf, titleOf} from '../discovery.js';
import {h} from '../dom.js';
import {liveTable} from './table.js';

/** @typedef {import('./object.js').Context} Context */
/** @typedef {{group: string, resource: string, owned?: boolean, selection?: (object: any) => import('../livetable.js').Selection|null, everywhere?: boolean}} Child */

/** @type {(object: any) => import('../livetable.js').Selection|null} */
const bySelector = (object) => {
	const selector = object.spec?.selector ?? {};
	const labels = Object.entries(selector.matchLabels ?? (selector.matchExpressions ? {} : selector)).map(([k, v]) => `${k}=${v}`);
	for (const {key, operator, values} of selector.matchExpressions ?? []) {
		if (operator === 'In' || operator === 'NotIn') labels.push(`${key} ${operator === 'In' ? 'in' : 'notin'} (${values.join(',')})`);
		else labels.push(operator === 'Exists' ? key : `!${key}`);
	}
	return labels.length ? {labelSelector: labels.join(',')} : null;
};

/** @type {Child} */
const ownedPods = {group: '', resource: 'pods', owned: true, selection: bySelector};

/** @type {Record<string, Child[]>} */
const related = {
	'apps/deployments': [{group: 'apps', resource: 'replicasets', owned: true, selection: bySelector}, {group: '', resource: 'pods', selection: bySelector}],
	'apps/replicasets': [ownedPods],
	'apps/statefulsets': [ownedPods],
	'apps/daemonsets': [ownedPods],
	'batch/jobs': [ownedPods],
	'batch/cronjobs': [{group: 'batch', resource: 'jobs', owned: true, selection: () => ({})}],
	services: [
		{group: '', resource: 'pods', selection: bySelector},
		{group: 'discovery.k8s.io', resource: 'endpointslices', selection: (object) => ({labelSelector: `kubernetes.io/service-name=${object.metadata.name}`})},
	],
	nodes: [{group: '', resource: 'pods', everywhere: true, selection: (object) => ({fieldSelector: `spec.nodeName=${object.metadata.name}`})}],
};

/**
 * Live tables of what belongs to an object.
 * @param {Context} context
 */
export function children({app, kind, object, signal}) {
	const {namespace, uid} = object.metadata;
	return (related[kind.group ? `${kind.group}/${kind.resource}` : kind.resource] ?? []).flatMap((child) => {
		const childKind = app.discovery.find(child.group, child.resource);
		const selection = child.selection?.(object);
		if (!childKind || !selection) return [];
		const {element} = liveTable(app, {
			path: pathOf(childKind, child.everywhere ? '' : namespace), kind: childKind, selection, namespaces: child.everywhere,
			matches: child.owned ? (row) => row.object?.metadata?.ownerReferences?.some((/** @type {any} */ o) => o.uid === uid) : undefined,
		}, signal);
		return [h('section', {class: 'card', 'data-children': child.resource}, h('h2', null, titleOf(childKind)), element)];
	});
}
