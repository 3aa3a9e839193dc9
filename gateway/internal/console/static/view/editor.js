// An object as YAML or JSON, as the server writes and reads it.

import {StatusError, warnings} from '../api.js';
import {append, button, choice, h, labelled, notice, problem} from '../dom.js';
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

	// One after the other, and nothing can be typed meanwhile: what is typed while the text is loaded anew would be lost.
	let last = Promise.resolve();
	/** @param {() => Promise<any>} act */
	const attempt = (act) => {
		last = last.then(() => tried(act));
		return last;
	};

	/** @param {() => Promise<any>} act */
	const tried = async (act) => {
		messages.replaceChildren();
		text.readOnly = true;
		try {
			await act();
		} catch (error) {
			if (signal.aborted) return;
			append(messages, problem(error));
			if (error instanceof StatusError && error.code === 409) {
				append(messages, button('Load the current version, and lose these changes', () => attempt(load)));
			}
		} finally {
			text.readOnly = !mayWrite;
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
		const accepted = await put(false);
		try {
			await load();
		} finally {
			append(messages, accepted.map((t) => notice(t, 'warn')), notice('Saved.', 'good'));
		}
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
