// One object, by tabs.

import {StatusError, backOff, pause} from '../api.js';
import {pathOf, titleOf} from '../discovery.js';
import {append, fill, h, notice, problem} from '../dom.js';
import {emptyOf, listHref, objectHref} from '../route.js';
import {actions} from './actions.js';
import {editorTab} from './editor.js';
import {eventsTab} from './events.js';
import {historyTab} from './history.js';
import {logsTab} from './logs.js';
import {placementTab} from './placement.js';
import {shellTab} from './shell.js';
import {summaryTab} from './summary.js';

/** @typedef {import('../main.js').App} App */
/** @typedef {import('../discovery.js').Kind} Kind */
/** @typedef {{app: App, kind: Kind, object: any, signal: AbortSignal, panel: HTMLElement, changed: (draw: (object: any) => void) => void}} Context what a tab is given */
/** @typedef {{name: string, title: string, show: (context: Context) => any, of?: (kind: Kind) => boolean}} Tab */

const isPod = (/** @type {Kind} */ kind) => kind.group === '' && kind.resource === 'pods';

/** @type {Tab[]} */
const tabs = [
	{name: 'summary', title: 'Summary', show: summaryTab},
	{name: 'logs', title: 'Logs', show: logsTab, of: isPod},
	{name: 'terminal', title: 'Terminal', show: shellTab, of: isPod},
	{name: 'placement', title: 'Placement', show: placementTab, of: isPod},
	{name: 'events', title: 'Events', show: eventsTab},
	{name: 'edit', title: 'Edit', show: editorTab},
	{name: 'history', title: 'History', show: historyTab},
];

/** @type {import('../main.js').Page} */
export async function objectPage(app, main, route, signal) {
	const [, group, version, resource, space, name, chosen] = route.parts;
	const kind = app.discovery.find(emptyOf(group ?? '-'), resource ?? '', version);
	if (!kind || !name) {
		main.append(notice(`The cluster serves no ${resource} of ${group} ${version}.`, 'warn'));
		return;
	}
	const namespace = emptyOf(space);
	document.title = `${name} · howdah`;
	const object = await app.client.get(pathOf(kind, namespace, name), {signal});
	const tab = tabs.find((t) => t.name === chosen && (t.of?.(kind) ?? true)) ?? tabs[0];
	const tools = h('div', {class: 'buttons'}), state = h('span'), trouble = h('div', {'aria-live': 'polite'}), panel = h('div', {class: 'panel', id: 'panel'});
	append(main,
		h('div', {class: 'title'},
			h('div', null,
				h('p', {class: 'crumbs'}, h('a', {href: listHref(kind)}, titleOf(kind)), namespace && [' in ', h('a', {href: listHref(kind, {namespace})}, namespace)]),
				h('h1', null, name, ' ', state)),
			h('div', {class: 'grow'}), tools),
		trouble,
		h('div', {class: 'tabs'}, tabs.filter((t) => t.of?.(kind) ?? true).map((t) => h('a', {
			href: objectHref(kind, namespace, name, t.name), 'aria-current': t === tab ? 'page' : undefined,
		}, t.title))),
		panel);

	/** @type {((object: any) => void)[]} */
	const drawers = [];
	const header = (/** @type {any} */ now) => {
		fill(tools, actions({app, kind, object: now, signal}));
		fill(state, now.metadata.deletionTimestamp ? h('span', {class: 'badge warn'}, 'Terminating') : null);
	};
	header(object);
	drawers.push(header);
	follow(app, kind, object, signal, (now, gone) => {
		if (gone) fill(trouble, notice('It has been deleted.', 'warn'));
		else for (const draw of drawers) draw(now);
	}).catch((error) => {
		if (!signal.aborted) fill(trouble, problem(error));
	});
	await tab.show({app, kind, object, signal, panel, changed: (draw) => drawers.push(draw)});
}

/**
 * Tells of an object's new states until the signal ends it, or the object is gone.
 * @param {App} app
 * @param {Kind} kind
 * @param {any} object the state that is known
 * @param {AbortSignal} signal
 * @param {(object: any, gone: boolean) => void} tell
 */
async function follow(app, kind, object, signal, tell) {
	if (!kind.verbs.has('watch')) return;
	const {namespace, name, uid} = object.metadata;
	const path = pathOf(kind, namespace, name), collection = pathOf(kind, namespace);
	let resourceVersion = object.metadata.resourceVersion;
	for (let failures = 0; !signal.aborted; failures++) {
		try {
			for await (const event of app.client.watch(collection, {signal, query: {fieldSelector: `metadata.name=${name}`, resourceVersion}})) {
				failures = 0;
				resourceVersion = event.object.metadata.resourceVersion;
				if (event.type === 'BOOKMARK') continue;
				if (event.type === 'DELETED' && event.object.metadata.uid === uid) {
					tell(event.object, true);
					return;
				}
				tell(event.object, false);
			}
		} catch (error) {
			if (signal.aborted) return;
			if (error instanceof StatusError && error.code === 403) return; // who may only get it sees it as it was
			if (error instanceof StatusError && error.code === 410) {
				const now = await app.client.get(path, {signal});
				resourceVersion = now.metadata.resourceVersion;
				tell(now, false);
			}
		}
		await pause(backOff(failures), signal);
	}
}
