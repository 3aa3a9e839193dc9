// A terminal in a container.

import {append, button, fill, h, labelled, notice} from '../dom.js';
import {Exec} from '../exec.js';
import {Terminal} from '../terminal.js';
import {targetPath} from './actions.js';
import {containerField, defaultContainer} from './containers.js';

/** @param {import('./object.js').Context} context */
export function shellTab(context) {
	const {app, object, signal, panel} = context;
	let container = defaultContainer(object);
	/** @type {Exec|null} */
	let exec = null;
	const messages = h('div', {'aria-live': 'polite'});
	const command = h('input', {type: 'text', name: 'command', value: 'sh', autocapitalize: 'off', spellcheck: 'false'});
	const terminal = new Terminal((text) => exec?.type(text), (columns, rows) => exec?.resize(columns, rows));

	const connect = () => {
		exec?.close();
		messages.replaceChildren();
		terminal.screen.reset();
		terminal.screen.past = [];
		const mine = exec = new Exec(app.client, targetPath(context, 'exec'), container, command.value.trim().split(/\s+/), {
			opened: () => {
				fill(messages, notice('Connected.', 'good'));
				terminal.measure();
				mine.resize(terminal.screen.columns, terminal.screen.rows);
				terminal.focus();
			},
			output: (text) => terminal.write(text),
			ended: (message) => {
				if (exec !== mine || signal.aborted) return;
				exec = null;
				fill(messages, notice(message, 'warn'));
			},
		});
	};
	signal.addEventListener('abort', () => exec?.close());
	append(panel,
		h('form', {class: 'toolbar', on: {submit: (/** @type {Event} */ event) => {
			event.preventDefault();
			connect();
		}}},
		containerField(object, container, (name) => { container = name; }), labelled('Command', command),
		h('button', {type: 'submit', class: 'primary'}, 'Connect'), button('Disconnect', () => exec?.close())),
		messages, terminal.element);
	terminal.fit(signal);
}
