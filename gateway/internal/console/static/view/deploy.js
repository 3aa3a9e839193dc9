// A form that makes a Deployment, and a Service for it.

import {warnings} from '../api.js';
import {append, choice, fill, h, labelled, notice} from '../dom.js';
import {deployment} from '../manifest.js';
import {namespaceField} from './namespaces.js';
import {query, refusals, results, transactions} from './results.js';

/** @type {import('../main.js').Page} */
export async function deployPage(app, main, _route, signal) {
	document.title = 'Deploy · howdah';
	let namespace = app.session.namespace || 'default', type = 'ClusterIP';
	const field = (/** @type {Record<string, any>} */ properties) => h('input', {type: 'text', autocapitalize: 'off', spellcheck: 'false', autocomplete: 'off', ...properties});
	const name = field({name: 'name', required: true, pattern: '[a-z0-9]([a-z0-9\\-]*[a-z0-9])?', maxlength: 63, title: 'Small letters, digits and hyphens'});
	const image = field({name: 'image', required: true, placeholder: 'nginx:1.9.1'});
	const replicas = field({name: 'replicas', type: 'number', min: 0, max: 100000, required: true, value: 1});
	const port = field({name: 'port', type: 'number', min: 1, max: 65535, placeholder: 'none'});
	const messages = h('div', {'aria-live': 'polite'}), preview = h('pre', {class: 'code', tabindex: 0});

	const objects = () => deployment({
		name: name.value.trim(), namespace, image: image.value.trim(), replicas: Number(replicas.value), port: Number(port.value) || null, type,
	});
	const show = () => fill(preview, objects().map((object) => JSON.stringify(object, null, 2)).join('\n'));

	const submit = async (/** @type {Event} */ event) => {
		event.preventDefault();
		messages.replaceChildren();
		try {
			const answer = await app.client.send('POST', transactions, {body: {items: objects().map((object) => ({operation: 'apply', object}))}, query, signal});
			append(messages, warnings(answer).map((t) => notice(t, 'warn')), results(app, await answer.json(), false));
		} catch (error) {
			if (!signal.aborted) fill(messages, refusals(error));
		}
	};

	append(main, h('div', {class: 'title'}, h('h1', null, 'Deploy')),
		h('form', {class: 'card form', on: {submit, input: show}},
			labelled('Name', name),
			await namespaceField(app, namespace, (chosen) => {
				namespace = chosen || 'default';
				show();
			}, signal, true),
			labelled('Image', image), labelled('Replicas', replicas), labelled('Port of the Service', port),
			labelled('Type of the Service', choice(['ClusterIP', 'NodePort', 'LoadBalancer'], type, (chosen) => {
				type = chosen;
				show();
			}, {name: 'type'})),
			h('div', {class: 'buttons'}, h('button', {type: 'submit', class: 'primary'}, 'Deploy'))),
		messages,
		h('details', null, h('summary', null, 'What is applied'), preview));
	show();
	name.focus();
}
