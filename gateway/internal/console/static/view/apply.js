// Manifests, applied.

import {warnings} from '../api.js';
import {append, button, fill, h, notice} from '../dom.js';
import {documents} from '../manifest.js';
import {namespaceField} from './namespaces.js';
import {query, refusals, results, transactions} from './results.js';

const example = `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  greeting: hello
---
…`;

/** @type {import('../main.js').Page} */
export async function applyPage(app, main, _route, signal) {
	document.title = 'Apply manifests · howdah';
	let namespace = app.session.namespace || 'default';
	const text = h('textarea', {class: 'editor', name: 'manifests', spellcheck: 'false', autocapitalize: 'off', wrap: 'off', placeholder: example, 'aria-label': 'Manifests in YAML or JSON'});
	const whole = h('input', {type: 'checkbox', name: 'whole', checked: true});
	const force = h('input', {type: 'checkbox', name: 'force'});
	const messages = h('div', {'aria-live': 'polite'});

	/** @param {boolean} dry */
	const apply = async (dry) => {
		messages.replaceChildren();
		const parts = whole.checked ? [text.value] : documents(text.value);
		if (documents(text.value).length === 0) {
			fill(messages, notice('There is no document.', 'warn'));
			return;
		}
		for (const [i, part] of parts.entries()) {
			if (parts.length > 1) append(messages, h('h3', null, `Document ${i + 1}`));
			try {
				const answer = await app.client.send('POST', transactions, {
					body: part, type: /^\s*[{[]/.test(part) ? 'application/json' : 'application/yaml', signal,
					query: {...query, namespace, force: force.checked, dryRun: dry ? 'All' : ''},
				});
				append(messages, warnings(answer).map((t) => notice(t, 'warn')), results(app, await answer.json(), dry));
			} catch (error) {
				if (signal.aborted) return;
				append(messages, refusals(error));
			}
		}
	};

	append(main,
		h('div', {class: 'title'}, h('h1', null, 'Apply manifests')),
		h('div', {class: 'toolbar'},
			await namespaceField(app, namespace, (name) => { namespace = name || 'default'; }, signal, true),
			h('label', {class: 'inline'}, whole, 'All or nothing'),
			h('label', {class: 'inline', title: 'Take fields over that others manage'}, force, 'Force conflicts'),
			h('div', {class: 'grow'}), button('Check', () => apply(true)), button('Apply', () => apply(false), {class: 'primary'})),
		messages, text,
		h('p', {class: 'hint'}, 'YAML documents or JSON, applied by the server for the manager howdah-console. All or nothing is one transaction; else each document is one of its own, in order.'));
	text.focus();
}
