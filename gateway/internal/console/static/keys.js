// What a terminal sends for a key.

/** @type {Record<string, string>} keys that move, whose form depends on the mode */
const moving = {ArrowUp: 'A', ArrowDown: 'B', ArrowRight: 'C', ArrowLeft: 'D', Home: 'H', End: 'F'};

/** @type {Record<string, string>} */
const fixed = {
	Enter: '\r', Backspace: '\x7f', Tab: '\t', Escape: '\x1b', Delete: '\x1b[3~', Insert: '\x1b[2~', PageUp: '\x1b[5~', PageDown: '\x1b[6~',
	F1: '\x1bOP', F2: '\x1bOQ', F3: '\x1bOR', F4: '\x1bOS', F5: '\x1b[15~', F6: '\x1b[17~', F7: '\x1b[18~', F8: '\x1b[19~', F9: '\x1b[20~', F10: '\x1b[21~',
	F11: '\x1b[23~', F12: '\x1b[24~',
};

/**
 * @param {{key: string, ctrlKey: boolean, altKey: boolean, shiftKey: boolean, metaKey: boolean}} event
 * @param {boolean} application whether the program has asked for the keys of applications
 * @returns {string} '' for a key that is left to the browser
 */
export function sequence(event, application) {
	const {key, ctrlKey, altKey, shiftKey, metaKey} = event;
	if (metaKey || (key === 'Tab' && shiftKey)) return ''; // Shift+Tab leaves the terminal
	if (ctrlKey && shiftKey && /^[cv]$/i.test(key)) return ''; // copy and paste
	if (key in moving) {
		const modifier = 1 + (shiftKey ? 1 : 0) + (altKey ? 2 : 0) + (ctrlKey ? 4 : 0);
		if (modifier > 1) return `\x1b[1;${modifier}${moving[key]}`;
		return `\x1b${application ? 'O' : '['}${moving[key]}`;
	}
	if (key in fixed) return (altKey ? '\x1b' : '') + fixed[key];
	if ([...key].length !== 1) return '';
	if (ctrlKey && !altKey) {
		const code = key === ' ' ? 0 : key.toUpperCase().charCodeAt(0) - 64;
		return code >= 0 && code < 32 ? String.fromCharCode(code) : '';
	}
	if (altKey && !ctrlKey) return `\x1b${key}`;
	return key;
}
