// A terminal on the page: it draws a screen, and tells what is typed and how large it is.

import {h} from './dom.js';
import {sequence} from './keys.js';
import {Screen} from './screen.js';

/** @typedef {import('./screen.js').Cell} Cell */

export class Terminal {
	/**
	 * @param {(text: string) => void} typed
	 * @param {(columns: number, rows: number) => void} resized
	 */
	constructor(typed, resized) {
		this.typed = typed;
		this.resized = resized;
		this.screen = new Screen(80, 24, typed);
		this.lines = h('div', {class: 'lines', 'aria-hidden': 'true'});
		this.probe = h('span', {class: 'probe', 'aria-hidden': 'true'}, 'M'.repeat(20));
		this.input = h('textarea', {
			class: 'keys', 'aria-label': 'Terminal. Shift+Tab leaves it.', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', rows: 1,
			on: {keydown: (/** @type {KeyboardEvent} */ e) => this.#key(e), input: (/** @type {InputEvent} */ e) => { if (!e.isComposing) this.#input(); }, compositionend: () => this.#input(), paste: (/** @type {ClipboardEvent} */ e) => this.#paste(e)},
		});
		this.element = h('div', {class: 'terminal', on: {mouseup: () => { if (!getSelection()?.toString()) this.focus(); }}}, this.probe, this.lines, this.input);
		this.pending = false;
	}

	focus() {
		this.input.focus({preventScroll: true});
	}

	/**
	 * Follows the size of the page.
	 * @param {AbortSignal} signal
	 */
	fit(signal) {
		const observer = new ResizeObserver(() => this.measure());
		observer.observe(this.element);
		signal.addEventListener('abort', () => observer.disconnect());
	}

	/** Makes the screen as large as there is room. */
	measure() {
		const cell = this.probe.getBoundingClientRect();
		if (!cell.width || !this.element.clientHeight) return;
		const columns = Math.max(20, Math.floor((this.element.clientWidth - 16) / (cell.width / 20)));
		const rows = Math.max(4, Math.floor((this.element.clientHeight - 12) / cell.height));
		if (columns === this.screen.columns && rows === this.screen.rows) return;
		this.screen.resize(columns, rows);
		this.resized(columns, rows);
		this.#later();
	}

	/** @param {string} text */
	write(text) {
		this.screen.write(text);
		this.#later();
	}

	#later() {
		if (this.pending) return;
		this.pending = true;
		requestAnimationFrame(() => {
			this.pending = false;
			this.draw();
		});
	}

	draw() {
		const {screen} = this;
		const atEnd = this.element.scrollTop + this.element.clientHeight >= this.element.scrollHeight - 20;
		const all = screen.hidden ? screen.lines : [...screen.past, ...screen.lines];
		const cursorLine = all.length - screen.rows + screen.y;
		this.lines.replaceChildren(...all.map((line, y) => drawn(line, screen.cursorShown && y === cursorLine ? Math.min(screen.x, screen.columns - 1) : -1)));
		if (atEnd) this.element.scrollTop = this.element.scrollHeight;
	}

	/** @param {KeyboardEvent} event */
	#key(event) {
		if (event.isComposing || written(event)) return;
		const text = sequence(event, this.screen.applicationKeys);
		if (!text) return;
		event.preventDefault();
		this.element.scrollTop = this.element.scrollHeight;
		this.typed(text);
	}

	/** What is written, by keys, input methods, or the keyboards of telephones. */
	#input() {
		const text = this.input.value;
		this.input.value = '';
		if (text) this.typed(text.replaceAll('\n', '\r'));
	}

	/** @param {ClipboardEvent} event */
	#paste(event) {
		event.preventDefault();
		const text = (event.clipboardData?.getData('text') ?? '').replace(/\r?\n/g, '\r');
		this.typed(this.screen.bracketedPaste ? `\x1b[200~${text.replaceAll('\x1b', '')}\x1b[201~` : text);
	}
}

/**
 * Whether a key writes into the field, from where it is taken.
 * @param {KeyboardEvent} event
 */
function written({key, ctrlKey, altKey, metaKey}) {
	return ([...key].length === 1 || (key === 'Enter' && !altKey)) && ctrlKey === altKey && !metaKey; // both together are AltGr
}

/**
 * A line: neighbours of one style are one element.
 * @param {Cell[]} line
 * @param {number} cursor the column of the cursor, or -1
 */
function drawn(line, cursor) {
	const element = h('div', null);
	const cells = cursor >= line.length ? [...line, ...Array.from({length: cursor - line.length + 1}, () => ({text: ' ', style: null}))] : line;
	for (let i = 0; i < cells.length;) {
		const start = i;
		let text = '';
		do text += cells[i++].text;
		while (i < cells.length && cells[i].style === cells[start].style && i !== cursor && start !== cursor);
		const span = h('span', null, text);
		dress(span, cells[start].style, start === cursor);
		element.append(span);
	}
	if (cells.length === 0) element.append('\u00a0');
	return element;
}

/**
 * @param {HTMLElement} span
 * @param {import('./screen.js').Style|null} style
 * @param {boolean} cursor
 */
function dress(span, style, cursor) {
	if (cursor) span.classList.add('cursor');
	if (!style) return;
	for (const name of /** @type {const} */ (['bold', 'dim', 'italic', 'underline', 'inverse'])) if (style[name]) span.classList.add(name);
	if (style.fg.startsWith('c')) span.classList.add(`f${style.fg}`);
	else if (style.fg) span.style.color = style.fg;
	if (style.bg.startsWith('c')) span.classList.add(`b${style.bg}`);
	else if (style.bg) span.style.backgroundColor = style.bg;
}
