// The console: who is signed in, the frame around all pages, and which page is shown.

import {Client, StatusError} from './api.js';
import {discover, titleOf} from './discovery.js';
import {button, fill, h, problem} from './dom.js';
import {listHref, parse} from './route.js';
import {Session} from './session.js';
import {applyPage} from './view/apply.js';
import {deployPage} from './view/deploy.js';
import {listPage} from './view/list.js';
import {objectPage} from './view/object.js';
import {overviewPage} from './view/overview.js';
import {signInPage} from './view/signin.js';

/** @typedef {import('./route.js').Route} Route */
/** @typedef {import('./discovery.js').Discovery} Discovery */
/** @typedef {{client: Client, session: Session, discovery: Discovery, traceURL: string}} App what pages are given */
/** @typedef {(app: App, main: HTMLElement, route: Route, signal: AbortSignal) => any} Page fills main until the signal ends it */

/** @type {Record<string, Page>} */
const pages = {list: listPage, object: objectPage, deploy: deployPage, apply: applyPage};

const selfReview = '/apis/authentication.k8s.io/v1/selfsubjectreviews';

/** @param {HTMLElement} root */
async function start(root) {
	const session = new Session(sessionStorage);
	/** @type {AbortController} ends what is on the page */
	let shown = new AbortController();

	/** @param {any} [error] why one has to sign in */
	const signIn = (error) => {
		shown.abort();
		session.signOut();
		signInPage(root, error, async (token) => {
			session.signIn(token);
			await enter();
		});
	};
	const client = new Client(session, signIn);

	/** Finds out who is signed in, and shows the page. Fails where nobody is. */
	const enter = async () => {
		try {
			const review = await client.call('POST', selfReview, {body: {apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview'}, again: true});
			session.user = review.status.userInfo;
		} catch (error) {
			session.signOut();
			throw error;
		}
		const [discovery, config] = await Promise.all([discover(client), client.get('/console/config.json')]);
		shown.abort();
		shown = new AbortController();
		frame(root, {client, session, discovery, traceURL: config.traceURL}, signIn, shown.signal);
	};

	try {
		await enter();
	} catch (error) {
		// Without credentials one is nobody, who may not ask: that needs no words.
		signIn(error instanceof StatusError && (error.code === 403 || error.code === 401) ? null : error);
	}
}

/**
 * Builds the frame, and shows pages in it until the signal ends it.
 * @param {HTMLElement} root
 * @param {App} app
 * @param {() => void} signOut
 * @param {AbortSignal} signal
 */
function frame(root, app, signOut, signal) {
	const main = h('main', {id: 'main', tabindex: -1});
	const navigation = h('nav', {'aria-label': 'Kinds', id: 'navigation'}, navigationOf(app.discovery));
	const menu = button('Menu', () => {
		const open = root.classList.toggle('menu');
		menu.setAttribute('aria-expanded', String(open));
	}, {class: 'menu-button', 'aria-controls': 'navigation', 'aria-expanded': 'false'});
	fill(root,
		h('a', {class: 'skip', href: '#main', on: {click: (/** @type {Event} */ e) => { e.preventDefault(); main.focus(); }}}, 'Skip to the page'),
		h('header', null,
			menu,
			h('a', {class: 'brand', href: '#/'}, 'howdah'),
			h('div', {class: 'grow'}),
			h('a', {class: 'button', href: '#/deploy'}, 'Deploy'),
			h('a', {class: 'button', href: '#/apply'}, 'Apply'),
			h('span', {class: 'user', title: (app.session.user?.groups ?? []).join('\n')}, app.session.user?.username ?? ''),
			button('Sign out', () => signOut())),
		navigation, main);

	/** @type {AbortController} */
	let page = new AbortController();
	const show = async () => {
		page.abort();
		const current = page = new AbortController();
		root.classList.remove('menu');
		menu.setAttribute('aria-expanded', 'false');
		const route = parse(location.hash);
		mark(navigation, route);
		main.replaceChildren();
		main.scrollTop = 0;
		document.title = 'howdah';
		try {
			await (pages[route.parts[0]] ?? overviewPage)(app, main, route, current.signal);
		} catch (error) {
			if (!current.signal.aborted) main.append(problem(error));
		}
	};
	addEventListener('hashchange', show, {signal});
	signal.addEventListener('abort', () => page.abort());
	show();
}

/** @param {Discovery} discovery */
function navigationOf(discovery) {
	return [
		h('a', {href: '#/', class: 'top'}, 'Overview'),
		...discovery.navigation().map((part, i) => h('details', {open: i < 2},
			h('summary', null, part.title),
			part.kinds.map((kind) => h('a', {href: listHref(kind), title: kind.group || 'v1'}, titleOf(kind))))),
	];
}

/**
 * Marks where one is.
 * @param {HTMLElement} navigation
 * @param {Route} route
 */
function mark(navigation, route) {
	const here = route.parts.length === 0 ? '#/' : `#/list/${route.parts.slice(1, 4).map(encodeURIComponent).join('/')}`;
	for (const link of navigation.querySelectorAll('a')) {
		if (link.getAttribute('href') === here) {
			link.setAttribute('aria-current', 'page');
			link.closest('details')?.setAttribute('open', '');
		} else {
			link.removeAttribute('aria-current');
		}
	}
}

start(/** @type {HTMLElement} */ (document.getElementById('app')));
