// The log of a container, as it comes.

import {lines} from '../api.js';
import {append, button, choice, fill, h, labelled, problem} from '../dom.js';
import {targetPath} from './actions.js';
import {containerField, defaultContainer} from './containers.js';

/** The most lines that are kept. */
const mostLines = 10_000;
/** A followed log is read for so long, in seconds. */
const followSeconds = 24 * 3600;
/** What programs colour their lines with. */
const escapes = /\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)?/g;

/** @param {import('./object.js').Context} context */
export async function logsTab(context) {
	const {app, object, signal, panel} = context;
	const options = {container: defaultContainer(object), previous: false, follow: true, tailLines: '500', sinceSeconds: '', timestamps: false};
	/** @type {string[]} */
	let kept = [];
	let search = '';
	let reading = new AbortController();
	const view = h('pre', {class: 'log', tabindex: 0, role: 'log', 'aria-label': 'Log'});
	const state = h('span', {class: 'state', role: 'status'}), trouble = h('div', {'aria-live': 'polite'}), found = h('span', {class: 'hint', role: 'status'});
	signal.addEventListener('abort', () => reading.abort());

	const matches = (/** @type {string} */ line) => !search || line.toLowerCase().includes(search);

	const redraw = () => {
		const shown = kept.filter(matches);
		view.replaceChildren(...shown.map((line) => drawn(line, search)));
		fill(found, search ? `${shown.length} of ${kept.length} lines` : '');
		view.scrollTop = view.scrollHeight;
	};

	/** @type {string[]} lines that wait for the next frame */
	let waiting = [];
	const flush = () => {
		const atEnd = view.scrollTop + view.clientHeight >= view.scrollHeight - 30;
		const shown = waiting.filter(matches);
		kept.push(...waiting);
		waiting = [];
		if (kept.length > mostLines) kept = kept.slice(-mostLines);
		view.append(...shown.map((line) => drawn(line, search)));
		while (view.childElementCount > mostLines) view.firstElementChild?.remove();
		if (search) fill(found, `${kept.filter(matches).length} of ${kept.length} lines`);
		if (atEnd) view.scrollTop = view.scrollHeight;
	};

	const read = async () => {
		reading.abort();
		const mine = reading = new AbortController();
		kept = [];
		waiting = [];
		trouble.replaceChildren();
		redraw();
		fill(state, options.follow ? 'Following' : 'Reading…');
		state.className = 'state live';
		try {
			const answer = await app.client.send('GET', targetPath(context, 'log'), {
				accept: '*/*', signal: mine.signal, seconds: options.follow ? followSeconds : undefined, query: {...options},
			});
			for await (const line of lines(answer)) {
				if (mine.signal.aborted) return;
				if (waiting.push(line.replace(escapes, '')) === 1) requestAnimationFrame(flush);
				if (waiting.length > mostLines) waiting.shift();
			}
			fill(state, 'The end');
		} catch (error) {
			if (mine.signal.aborted) return;
			fill(state, 'Stopped');
			fill(trouble, problem(error));
		}
		state.className = 'state';
	};

	/** @param {Partial<typeof options>} changed */
	const change = (changed) => {
		Object.assign(options, changed);
		read();
	};
	const box = (/** @type {string} */ label, /** @type {'previous'|'follow'|'timestamps'} */ name) => h('label', {class: 'inline'},
		h('input', {type: 'checkbox', name, checked: options[name], on: {change: (/** @type {any} */ e) => change({[name]: e.target.checked})}}), label);
	append(panel,
		h('div', {class: 'toolbar'},
			containerField(object, options.container, (container) => change({container})),
			labelled('Lines', choice([['100', 'last 100'], ['500', 'last 500'], ['5000', 'last 5000'], ['', 'all']], options.tailLines, (tailLines) => change({tailLines}), {name: 'tail'})),
			labelled('Since', choice([['', 'the beginning'], ['60', '1 minute'], ['300', '5 minutes'], ['3600', '1 hour'], ['86400', '1 day']], '', (sinceSeconds) => change({sinceSeconds}), {name: 'since'})),
			labelled('Search', h('input', {type: 'search', name: 'search', on: {input: (/** @type {any} */ e) => {
				search = e.target.value.toLowerCase();
				redraw();
			}}})),
			box('Follow', 'follow'), box('Previous run', 'previous'), box('Timestamps', 'timestamps'),
			h('div', {class: 'grow'}), button('Save as file', () => download(`${object.metadata.name}-${options.container}.log`, kept))),
		trouble, view, h('div', {class: 'table-foot'}, state, found));
	read();
}

/**
 * A line, with what is searched for marked.
 * @param {string} line
 * @param {string} search in small letters
 */
function drawn(line, search) {
	const element = h('div');
	const lower = line.toLowerCase();
	let from = 0;
	for (let at = search ? lower.indexOf(search) : -1; at >= 0; at = lower.indexOf(search, from)) {
		append(element, line.slice(from, at), h('mark', null, line.slice(at, at + search.length)));
		from = at + search.length;
	}
	append(element, line.slice(from) || (from ? '' : '\u00a0'));
	return element;
}

/**
 * @param {string} name
 * @param {string[]} text
 */
function download(name, text) {
	const link = document.createElement('a');
	link.href = URL.createObjectURL(new Blob(text.map((line) => `${line}\n`), {type: 'text/plain'}));
	link.download = name;
	link.click();
	URL.revokeObjectURL(link.href);
}
