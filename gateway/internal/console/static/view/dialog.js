// Questions that are asked before something is done.

import {button, fill, h, problem} from '../dom.js';

/**
 * Asks, and does it when it is confirmed. What goes wrong is shown in the dialog, which stays.
 * @param {string} title
 * @param {any[]} content
 * @param {string} label of the button that does it
 * @param {() => Promise<any>} act
 * @param {{danger?: boolean, signal: AbortSignal}} options
 */
export function ask(title, content, label, act, {danger, signal}) {
	const trouble = h('div', {'aria-live': 'polite'});
	const submit = h('button', {type: 'submit', class: danger ? 'danger' : 'primary'}, label);
	const dialog = h('dialog', {'aria-label': title},
		h('form', {on: {submit: async (/** @type {Event} */ event) => {
			event.preventDefault();
			submit.disabled = true;
			try {
				await act();
				dialog.close();
			} catch (error) {
				fill(trouble, problem(error));
				submit.disabled = false;
			}
		}}}, h('h2', null, title), content, trouble, h('div', {class: 'buttons'}, button('Cancel', () => dialog.close()), submit)));
	dialog.addEventListener('close', () => dialog.remove());
	signal.addEventListener('abort', () => dialog.close());
	document.body.append(dialog);
	dialog.showModal();
}
