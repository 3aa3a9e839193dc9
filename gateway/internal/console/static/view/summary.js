// What an object is, and how it is.

import {append, fill, h} from '../dom.js';
import {age, cpu, memory, mood, quantity} from '../format.js';
import {listHref, objectHref} from '../route.js';
import {children} from './children.js';
import {revisions} from './revisions.js';

/** @typedef {import('./object.js').Context} Context */

/** @param {Context} context */
export async function summaryTab(context) {
	const {panel, object, changed} = context;
	const facts = h('div', {class: 'cards two'}), conditions = h('div'), containers = h('div'), usage = h('div');
	const draw = (/** @type {any} */ now) => {
		fill(facts, about(context, now), fields('Spec', now.spec), fields('Status', now.status));
		fill(conditions, conditionTable(now));
		fill(containers, containerTable(now));
	};
	draw(object);
	changed(draw);
	append(panel, facts, usage, containers, conditions, revisions(context), children(context));
	await showUsage(context, usage);
}

/**
 * @param {Context} context
 * @param {any} object
 */
function about({app, kind}, object) {
	const m = object.metadata, now = Date.now();
	const annotations = Object.entries(m.annotations ?? {}).filter(([key]) => key !== 'kubectl.kubernetes.io/last-applied-configuration');
	return h('section', {class: 'card'}, h('h2', null, kind.kind), h('dl', null,
		fact('Created', h('time', {datetime: m.creationTimestamp, title: m.creationTimestamp}, `${age(m.creationTimestamp, now)} ago`)),
		m.ownerReferences?.length && fact('Owner', m.ownerReferences.map((/** @type {any} */ o) => owner(app, m.namespace, o))),
		fact('Labels', chips(Object.entries(m.labels ?? {}).map(([k, v]) => h('a', {class: 'chip', href: listHref(kind, {labels: `${k}=${v}`})}, `${k}=${v}`)))),
		annotations.length > 0 && fact('Annotations', h('details', null, h('summary', null, String(annotations.length)),
			chips(annotations.map(([k, v]) => h('span', {class: 'chip'}, `${k}=${v}`))))),
		m.finalizers?.length && fact('Finalizers', m.finalizers.join(', ')),
		fact('UID', h('code', null, m.uid))));
}

/** @param {any[]} all */
function chips(all) {
	return all.length ? h('div', {class: 'chips'}, all) : '–';
}

/**
 * @param {import('../main.js').App} app
 * @param {string|undefined} namespace
 * @param {any} reference
 */
function owner(app, namespace, reference) {
	const kind = app.discovery.ofReference(reference.apiVersion, reference.kind);
	const text = `${reference.kind} ${reference.name}`;
	return kind ? h('a', {href: objectHref(kind, kind.namespaced ? namespace : '', reference.name)}, text) : text;
}

/**
 * @param {string} name
 * @param {any} value
 */
function fact(name, value) {
	return h('div', {class: 'fact'}, h('dt', null, name), h('dd', null, value));
}

/**
 * The plain values of a part of an object; the rest is in its YAML.
 * @param {string} title
 * @param {any} part
 */
function fields(title, part) {
	const plain = Object.entries(part ?? {}).filter(([, value]) => value !== null && typeof value !== 'object' && value !== '');
	if (plain.length === 0) return null;
	return h('section', {class: 'card'}, h('h2', null, title), h('dl', null, plain.map(([name, value]) => fact(words(name),
		name === 'phase' ? h('span', {class: `badge ${mood(String(value))}`}, String(value)) : String(value)))));
}

/** @param {string} name as in "podIP" */
function words(name) {
	const spaced = name.replace(/([a-z])([A-Z])/g, '$1 $2');
	return spaced[0].toUpperCase() + spaced.slice(1).replace(/ ([A-Z])(?=[a-z])/g, (_, c) => ` ${c.toLowerCase()}`);
}

/** @param {any} object */
function conditionTable(object) {
	const all = Array.isArray(object.status?.conditions) ? object.status.conditions : [];
	if (all.length === 0) return null;
	return h('section', {class: 'card'}, h('h2', null, 'Conditions'), h('div', {class: 'scroll'}, h('table', null,
		h('thead', null, h('tr', null, ['Type', 'Status', 'Since', 'Reason', 'Message'].map((name) => h('th', {scope: 'col'}, name)))),
		h('tbody', null, all.map((/** @type {any} */ c) => h('tr', null,
			h('th', {scope: 'row'}, c.type), h('td', null, c.status), h('td', null, age(c.lastTransitionTime, Date.now())), h('td', null, c.reason), h('td', {class: 'long'}, c.message)))))));
}

/**
 * A pod's containers, or those of a template.
 * @param {any} object
 */
function containerTable(object) {
	const spec = object.spec?.template?.spec ?? object.spec?.jobTemplate?.spec?.template?.spec ?? object.spec;
	const all = [...(spec?.initContainers ?? []), ...(spec?.containers ?? []), ...(spec?.ephemeralContainers ?? [])].filter((c) => c && typeof c === 'object' && c.name);
	if (all.length === 0) return null;
	const states = new Map([...(object.status?.initContainerStatuses ?? []), ...(object.status?.containerStatuses ?? []), ...(object.status?.ephemeralContainerStatuses ?? [])]
		.map((/** @type {any} */ s) => [s.name, s]));
	const isPod = object.kind === 'Pod';
	return h('section', {class: 'card'}, h('h2', null, 'Containers'), h('div', {class: 'scroll'}, h('table', null,
		h('thead', null, h('tr', null, ['Name', 'Image', 'Requests', 'Limits', ...(isPod ? ['State', 'Restarts'] : [])].map((name) => h('th', {scope: 'col'}, name)))),
		h('tbody', null, all.map((c) => {
			const status = states.get(c.name);
			return h('tr', null, h('th', {scope: 'row'}, c.name), h('td', null, c.image), h('td', null, amounts(c.resources?.requests)), h('td', null, amounts(c.resources?.limits)),
				isPod && [h('td', null, stateOf(status)), h('td', null, status?.restartCount ?? 0)]);
		})))));
}

/** @param {Record<string, string>|undefined} resources */
function amounts(resources) {
	return Object.entries(resources ?? {}).map(([name, amount]) => `${name} ${amount}`).join(', ') || '–';
}

/** @param {any} status of a container */
function stateOf(status) {
	const [name, detail] = Object.entries(status?.state ?? {})[0] ?? ['waiting', {}];
	const reason = /** @type {any} */ (detail).reason;
	const text = reason ?? name[0].toUpperCase() + name.slice(1);
	return h('span', {class: `badge ${mood(text)}`, title: /** @type {any} */ (detail).message}, text);
}

/**
 * What a pod or node uses, where metrics are served.
 * @param {Context} context
 * @param {HTMLElement} place
 */
async function showUsage({app, kind, object, signal}, place) {
	if (kind.group !== '' || (kind.resource !== 'pods' && kind.resource !== 'nodes') || !app.discovery.find('metrics.k8s.io', kind.resource)) return;
	const m = object.metadata;
	try {
		const path = kind.resource === 'pods' ? `namespaces/${encodeURIComponent(m.namespace)}/pods` : 'nodes';
		const metrics = await app.client.get(`/apis/metrics.k8s.io/v1beta1/${path}/${encodeURIComponent(m.name)}`, {signal});
		const parts = metrics.containers ?? [{name: m.name, usage: metrics.usage}];
		fill(place, h('section', {class: 'card'}, h('h2', null, 'Usage'), h('dl', null, parts.map((/** @type {any} */ p) =>
			fact(p.name, `${cpu(quantity(p.usage?.cpu))} CPU, ${memory(quantity(p.usage?.memory))}`)))));
	} catch {
		// metrics come a minute after a pod, and not everyone may read them: what is not known is not shown
	}
}
