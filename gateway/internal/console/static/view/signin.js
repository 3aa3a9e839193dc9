// Signing in by a bearer token.

import {fill, h, problem} from '../dom.js';

/**
 * @param {HTMLElement} root
 * @param {any} error why one has to sign in, or null
 * @param {(token: string) => Promise<void>} signIn
 */
export function signInPage(root, error, signIn) {
	document.title = 'Sign in · howdah';
	const messages = h('div', {'aria-live': 'polite'}, error?.message ? problem(error) : null);
	const token = h('textarea', {id: 'token', rows: 4, required: true, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', class: 'secret'});
	const submit = h('button', {type: 'submit', class: 'primary'}, 'Sign in');
	const form = h('form', {class: 'card sign-in', on: {submit: async (/** @type {Event} */ event) => {
		event.preventDefault();
		submit.disabled = true;
		messages.replaceChildren();
		try {
			await signIn(token.value.trim());
		} catch (refused) {
			fill(messages, problem(refused));
			submit.disabled = false;
			token.focus();
		}
	}}},
	h('h1', null, 'howdah'),
	h('label', {class: 'field', for: 'token'}, h('span', null, 'Bearer token'), token),
	messages,
	submit,
	h('p', {class: 'hint'}, 'A token of a service account: ', h('code', null, 'kubectl -n kube-system create token NAME'),
		'. It stays in this tab until you sign out or close it. With a client certificate in the browser no token is needed.'));
	fill(root, h('div', {class: 'center'}, form));
	token.focus();
}
