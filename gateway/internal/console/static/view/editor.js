// An object as YAML or JSON, as the server writes and reads it.

import {StatusError, warnings} from '../api.js';
import {append, button, choice, fill, h, labelled, notice, problem} from '../dom.js';
import {withoutManagedFields} from '../manifest.js';
import {targetPath} from './actions.js';

/** @type {Record<string, string>} */
const types = {YAML: 'application/yaml', JSON: 'application/json'};
const query = {fieldManager: 'howdah-console', fieldValidation: 'Strict'};

/** @param {import('./object.js').Context} context */
export async function editorTab(context) {
	const {app, kind, signal, panel} = context;
	const path = targetPath(context);
	const mayWrite = kind.verbs.has('update');
	let format = 'YAML', managed = false, warned = '';
	const text = h('textarea', {class: 'editor', name: 'manifest', spellcheck: 'false', autocapitalize: 'off', wrap: 'off', 'aria-label': `${kind.kind} as text`, readonly: !mayWrite});
	const messages = h('div', {'aria-live': 'polite'});

	const load = async () => {
		const answer = await app.client.send('GET', path, {accept: types[format], signal, query: format === 'JSON' ? {pretty: 'true'} : {}});
		text.value = managed ? await answer.text() : withoutManagedFields(await answer.text(), format);
		warned = '';
	};

	/** @param {() => Promise<any>} act */
	const attempt = async (act) => {
		messages.replaceChildren();
		try {
			await act();
		} catch (error) {
			if (signal.aborted) return;
			fill(messages, problem(error));
			if (error instanceof StatusError && error.code === 409) {
				append(messages, button('Load the current version, and lose these changes', () => attempt(load)));
			}
		}
	};

	/** @param {boolean} dry */
	const put = async (dry) => warnings(await app.client.send('PUT', path, {
		body: text.value, type: types[format], signal, query: dry ? {...query, dryRun: 'All'} : query,
	}));

	const check = () => attempt(async () => {
		const told = await put(true);
		append(messages, told.map((t) => notice(t, 'warn')), notice('It would be accepted.', 'good'));
	});

	const save = () => attempt(async () => {
		const told = await put(true);
		if (told.length && warned !== text.value) {
			warned = text.value;
			append(messages, told.map((t) => notice(t, 'warn')), notice('It is not saved yet. Save again to accept the warnings.'));
			return;
		}
		append(messages, (await put(false)).map((t) => notice(t, 'warn')), notice('Saved.', 'good'));
		await load();
	});

	append(panel,
		h('div', {class: 'toolbar'},
			labelled('Format', choice(Object.keys(types), format, (value) => {
				format = value;
				attempt(load);
			}, {name: 'format'})),
			h('label', {class: 'inline'}, h('input', {type: 'checkbox', on: {change: (/** @type {any} */ e) => {
				managed = e.target.checked;
				attempt(load);
			}}}), 'Managed fields'),
			h('div', {class: 'grow'}),
			mayWrite && [button('Reload', () => attempt(load)), button('Check', check), button('Save', save, {class: 'primary'})]),
		messages, text);
	await attempt(load);
}
