// What a terminal shows: the characters that a program sends and the control sequences of xterm that programs commonly use, on a grid of
// cells. It draws nothing.

/** @typedef {{fg: string, bg: string, bold: boolean, dim: boolean, italic: boolean, underline: boolean, inverse: boolean}} Style */
/** @typedef {{text: string, style: Style}} Cell */

/** @type {Style} */
const plain = Object.freeze({fg: '', bg: '', bold: false, dim: false, italic: false, underline: false, inverse: false});
const scrollback = 2000; // lines
const maxParameters = 256; // characters of a control sequence

/** Characters that occupy two cells: those of East Asia, and pictures. */
const wide = /^[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]$/u;
/** Characters that are drawn over the one before. */
const combining = /^[\p{Mn}\p{Me}\u200d\ufe0f]$/u;

export class Screen {
	/**
	 * @param {number} columns
	 * @param {number} rows
	 * @param {(text: string) => void} [reply] takes what a program asks to be told, as where the cursor is
	 */
	constructor(columns, rows, reply = () => {}) {
		this.columns = columns;
		this.rows = rows;
		this.reply = reply;
		/** @type {Cell[][]} lines that have left the top */
		this.past = [];
		this.reset();
	}

	reset() {
		this.style = plain;
		/** @type {Cell[][]} */
		this.lines = Array.from({length: this.rows}, () => []);
		this.x = 0;
		this.y = 0;
		this.top = 0;
		this.bottom = this.rows - 1;
		this.saved = {x: 0, y: 0, style: plain};
		/** @type {{lines: Cell[][], x: number, y: number}|null} what the alternate screen hides */
		this.hidden = null;
		this.cursorShown = true;
		this.applicationKeys = false;
		this.bracketedPaste = false;
		this.wraps = true;
		this.graphics = false;
		this.state = 'text';
		this.parameters = '';
		this.title = '';
	}

	/**
	 * @param {number} columns
	 * @param {number} rows
	 */
	resize(columns, rows) {
		for (const lines of [this.lines, this.hidden?.lines]) {
			if (!lines) continue;
			while (lines.length > rows) {
				const gone = lines[lines.length - 1].length === 0 && lines.length > this.y + 1 ? lines.pop() : lines.shift();
				if (gone?.length && lines === this.lines && !this.hidden) this.#keep(gone);
				if (gone?.length) this.y = Math.max(0, this.y - 1);
			}
			while (lines.length < rows) lines.push([]);
		}
		this.columns = columns;
		this.rows = rows;
		this.top = 0;
		this.bottom = rows - 1;
		this.x = Math.min(this.x, columns - 1);
		this.y = Math.min(this.y, rows - 1);
	}

	/** @param {string} text what a program has sent */
	write(text) {
		for (const c of text) this.#take(c);
	}

	/** @param {string} c */
	#take(c) {
		switch (this.state) {
			case 'text': return this.#text(c);
			case 'escape': return this.#escape(c);
			case 'control': return this.#control(c);
			case 'system': return this.#system(c);
			case 'charset':
				this.graphics = c === '0';
				this.state = 'text';
				return undefined;
			case 'systemEscape':
				this.state = 'text'; // the backslash of the terminator
				return c === '\\' ? undefined : this.#take(c);
			default: // one character that means nothing here
				this.state = 'text';
				return undefined;
		}
	}

	/** @param {string} c */
	#text(c) {
		switch (c) {
			case '\x1b': this.state = 'escape'; return;
			case '\n': case '\v': case '\f': this.#feed(); return;
			case '\r': this.x = 0; return;
			case '\b': this.x = Math.max(0, Math.min(this.x, this.columns - 1) - 1); return;
			case '\t': this.x = Math.min(this.columns - 1, (Math.floor(this.x / 8) + 1) * 8); return;
			default: if (c >= ' ' && c !== '\x7f') this.#put(c);
		}
	}

	/** @param {string} c */
	#put(c) {
		if (combining.test(c)) {
			const before = this.lines[this.y][Math.min(this.x, this.columns) - 1];
			if (before && before.text.length < 16) before.text += c;
			return;
		}
		const width = wide.test(c) ? 2 : 1;
		if (this.x + width > this.columns) {
			if (this.wraps) {
				this.x = 0;
				this.#feed();
			} else {
				this.x = this.columns - width;
			}
		}
		const line = this.lines[this.y];
		while (line.length < this.x) line.push({text: ' ', style: plain});
		line[this.x++] = {text: this.graphics ? lineDrawing[c] ?? c : c, style: this.style};
		if (width === 2) line[this.x++] = {text: '', style: this.style};
	}

	/** Goes down a line, and scrolls at the end of the region. */
	#feed() {
		if (this.y === this.bottom) this.#scrollUp(1);
		else if (this.y < this.rows - 1) this.y++;
	}

	/** @param {number} n */
	#scrollUp(n) {
		for (let i = 0; i < Math.min(n, this.bottom - this.top + 1); i++) {
			const [gone] = this.lines.splice(this.top, 1);
			if (this.top === 0 && !this.hidden) this.#keep(gone);
			this.lines.splice(this.bottom, 0, []);
		}
	}

	/** @param {number} n */
	#scrollDown(n) {
		for (let i = 0; i < Math.min(n, this.bottom - this.top + 1); i++) {
			this.lines.splice(this.bottom, 1);
			this.lines.splice(this.top, 0, []);
		}
	}

	/** @param {Cell[]} line */
	#keep(line) {
		this.past.push(line);
		if (this.past.length > scrollback) this.past.shift();
	}

	/** @param {string} c */
	#escape(c) {
		this.state = 'text';
		switch (c) {
			case '[': this.state = 'control'; this.parameters = ''; break;
			case ']': case 'P': case 'X': case '^': case '_': this.state = 'system'; this.parameters = ''; break;
			case '(': this.state = 'charset'; break;
			case ')': case '*': case '+': case '#': case '%': case ' ': this.state = 'skip'; break;
			case '7': this.#save(); break;
			case '8': this.#restore(); break;
			case 'D': this.#feed(); break;
			case 'E': this.x = 0; this.#feed(); break;
			case 'M': if (this.y === this.top) this.#scrollDown(1); else this.y = Math.max(0, this.y - 1); break;
			case 'c': this.reset(); break;
		}
	}

	#save() {
		this.saved = {x: this.x, y: this.y, style: this.style};
	}

	#restore() {
		this.x = Math.min(this.saved.x, this.columns - 1);
		this.y = Math.min(this.saved.y, this.rows - 1);
		this.style = this.saved.style;
	}

	/** @param {string} c of an operating system command, which ends with BEL or ESC \ */
	#system(c) {
		if (c === '\x07' || c === '\x1b') {
			const title = /^[02];(.*)$/s.exec(this.parameters);
			if (title) this.title = title[1];
			this.state = c === '\x07' ? 'text' : 'systemEscape';
		} else if (this.parameters.length < maxParameters) {
			this.parameters += c;
		}
	}

	/** @param {string} c of a control sequence */
	#control(c) {
		if (c === '\x1b') {
			this.state = 'escape';
		} else if (c < ' ') {
			this.#text(c); // acts at once, and the sequence goes on
		} else if (c < '@') {
			if (this.parameters.length < maxParameters) this.parameters += c;
		} else {
			this.state = 'text';
			this.#run(c);
		}
	}

	/** @param {string} command the last character of a control sequence */
	#run(command) {
		const marker = /^[<=>?]/.exec(this.parameters)?.[0] ?? '';
		if (/[ !"$']/.test(this.parameters)) return; // of functions that are not here
		const numbers = this.parameters.slice(marker.length).split(/[;:]/).map((n) => Math.min(Number.parseInt(n, 10) || 0, 9999));
		const n = Math.max(1, numbers[0]);
		if (marker) {
			if (marker === '?' && (command === 'h' || command === 'l')) for (const mode of numbers) this.#mode(mode, command === 'h');
			return;
		}
		const line = this.lines[this.y];
		switch (command) {
			case 'A': this.y = Math.max(this.y >= this.top ? this.top : 0, this.y - n); break;
			case 'B': case 'e': this.y = Math.min(this.y <= this.bottom ? this.bottom : this.rows - 1, this.y + n); break;
			case 'C': case 'a': this.x = Math.min(this.columns - 1, this.x + n); break;
			case 'D': this.x = Math.max(0, Math.min(this.x, this.columns - 1) - n); break;
			case 'E': this.x = 0; this.y = Math.min(this.rows - 1, this.y + n); break;
			case 'F': this.x = 0; this.y = Math.max(0, this.y - n); break;
			case 'G': case '`': this.x = Math.min(this.columns, n) - 1; break;
			case 'H': case 'f':
				this.y = Math.min(this.rows, n) - 1;
				this.x = Math.min(this.columns, Math.max(1, numbers[1] ?? 1)) - 1;
				break;
			case 'd': this.y = Math.min(this.rows, n) - 1; break;
			case 'J': this.#eraseScreen(numbers[0]); break;
			case 'K': this.#eraseLine(numbers[0]); break;
			case 'L': if (this.#inRegion()) this.#within(this.y, () => this.#scrollDown(n)); break;
			case 'M': if (this.#inRegion()) this.#within(this.y, () => this.#deleteLines(n)); break;
			case 'P': line.splice(this.x, n); break;
			case '@': if (this.x < line.length) { line.splice(this.x, 0, ...blanks(Math.min(n, this.columns), this.style)); line.length = Math.min(line.length, this.columns); } break;
			case 'X': for (let i = this.x; i < Math.min(this.x + n, line.length); i++) line[i] = {text: ' ', style: this.style}; break;
			case 'S': this.#scrollUp(n); break;
			case 'T': this.#scrollDown(n); break;
			case 'm': this.#styles(numbers); break;
			case 'r': this.#region(numbers); break;
			case 's': this.#save(); break;
			case 'u': this.#restore(); break;
			case 'n': if (numbers[0] === 6) this.reply(`\x1b[${this.y + 1};${Math.min(this.x, this.columns - 1) + 1}R`); else if (numbers[0] === 5) this.reply('\x1b[0n'); break;
			case 'c': this.reply('\x1b[?62;22c'); break;
		}
	}

	#inRegion() {
		return this.y >= this.top && this.y <= this.bottom;
	}

	/**
	 * Runs with the region beginning at a line.
	 * @param {number} top
	 * @param {() => void} act
	 */
	#within(top, act) {
		const before = this.top;
		this.top = top;
		act();
		this.top = before;
		this.x = 0;
	}

	/** @param {number} n */
	#deleteLines(n) {
		for (let i = 0; i < Math.min(n, this.bottom - this.top + 1); i++) {
			this.lines.splice(this.top, 1);
			this.lines.splice(this.bottom, 0, []);
		}
	}

	/** @param {number[]} numbers */
	#region([top, bottom]) {
		const first = Math.max(1, top || 1) - 1;
		const last = Math.min(this.rows, bottom || this.rows) - 1;
		if (first >= last) return;
		this.top = first;
		this.bottom = last;
		this.x = 0;
		this.y = 0;
	}

	/** @param {number} what 0 is from the cursor, 1 up to it, 2 all, 3 also what has scrolled away */
	#eraseScreen(what) {
		if (what === 3) this.past = [];
		if (what >= 2) {
			this.lines = Array.from({length: this.rows}, () => []);
			return;
		}
		this.#eraseLine(what);
		for (let y = 0; y < this.rows; y++) if (what === 0 ? y > this.y : y < this.y) this.lines[y] = [];
	}

	/** @param {number} what */
	#eraseLine(what) {
		const line = this.lines[this.y];
		if (what === 2) line.length = 0;
		else if (what === 1) for (let i = 0; i <= Math.min(this.x, line.length - 1); i++) line[i] = {text: ' ', style: this.style};
		else line.length = Math.min(line.length, this.x);
		if (what !== 1 && this.style.bg) { // what is erased takes the background, as programs with full screens expect
			while (line.length < (what === 2 ? 0 : this.x)) line.push({text: ' ', style: plain});
			line.push(...blanks(this.columns - line.length, this.style));
		}
	}

	/**
	 * @param {number} mode
	 * @param {boolean} on
	 */
	#mode(mode, on) {
		switch (mode) {
			case 1: this.applicationKeys = on; break;
			case 7: this.wraps = on; break;
			case 25: this.cursorShown = on; break;
			case 2004: this.bracketedPaste = on; break;
			case 47: case 1047: this.#alternate(on); break;
			case 1048: if (on) this.#save(); else this.#restore(); break;
			case 1049:
				if (on) this.#save();
				this.#alternate(on);
				if (!on) this.#restore();
				break;
		}
	}

	/** @param {boolean} on */
	#alternate(on) {
		if (on && !this.hidden) {
			this.hidden = {lines: this.lines, x: this.x, y: this.y};
			this.lines = Array.from({length: this.rows}, () => []);
		} else if (!on && this.hidden) {
			this.lines = this.hidden.lines;
			this.hidden = null;
		}
		this.top = 0;
		this.bottom = this.rows - 1;
	}

	/** @param {number[]} numbers of "select graphic rendition" */
	#styles(numbers) {
		const style = {...this.style};
		for (let i = 0; i < numbers.length; i++) {
			const n = numbers[i];
			if (n === 0) Object.assign(style, plain);
			else if (n === 1) style.bold = true;
			else if (n === 2) style.dim = true;
			else if (n === 3) style.italic = true;
			else if (n === 4) style.underline = true;
			else if (n === 7) style.inverse = true;
			else if (n === 22) style.bold = style.dim = false;
			else if (n === 23) style.italic = false;
			else if (n === 24) style.underline = false;
			else if (n === 27) style.inverse = false;
			else if (n >= 30 && n <= 37) style.fg = `c${n - 30}`;
			else if (n === 39) style.fg = '';
			else if (n >= 40 && n <= 47) style.bg = `c${n - 40}`;
			else if (n === 49) style.bg = '';
			else if (n >= 90 && n <= 97) style.fg = `c${n - 82}`;
			else if (n >= 100 && n <= 107) style.bg = `c${n - 92}`;
			else if (n === 38 || n === 48) {
				const [color, used] = extended(numbers.slice(i + 1));
				style[n === 38 ? 'fg' : 'bg'] = color;
				i += used;
			}
		}
		this.style = Object.freeze(style);
	}

	/** All that is shown as text, lines without the blanks at their ends. */
	text() {
		return this.lines.map((line) => line.map((cell) => cell.text).join('').trimEnd()).join('\n').trimEnd();
	}
}

/**
 * @param {number} n
 * @param {Style} style
 * @returns {Cell[]}
 */
function blanks(n, style) {
	return Array.from({length: Math.max(0, n)}, () => ({text: ' ', style}));
}

/**
 * A colour of 256, or of red, green and blue: c0 to c15 of the palette, or as CSS has it.
 * @param {number[]} numbers behind 38 or 48
 * @returns {[string, number]} the colour, and how many numbers it took
 */
function extended(numbers) {
	if (numbers[0] === 2) return [`rgb(${numbers.slice(1, 4).map((n) => Math.min(255, n ?? 0)).join(' ')})`, 4];
	if (numbers[0] !== 5) return ['', 1];
	const n = Math.min(255, numbers[1] ?? 0);
	if (n < 16) return [`c${n}`, 2];
	if (n > 231) return [`rgb(${8 + (n - 232) * 10} ${8 + (n - 232) * 10} ${8 + (n - 232) * 10})`, 2];
	const level = (/** @type {number} */ v) => (v ? 55 + v * 40 : 0);
	return [`rgb(${level(Math.floor((n - 16) / 36))} ${level(Math.floor((n - 16) / 6) % 6)} ${level((n - 16) % 6)})`, 2];
}

/** @type {Record<string, string>} DEC's special graphics */
const lineDrawing = {j: '┘', k: '┐', l: '┌', m: '└', n: '┼', q: '─', t: '├', u: '┤', v: '┴', w: '┬', x: '│', a: '▒', '`': '◆', '~': '·', f: '°', g: '±'};
