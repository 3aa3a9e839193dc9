// How times and quantities read.

/**
 * How long ago, as kubectl tells ages.
 * @param {string|undefined} time RFC 3339
 * @param {number} now milliseconds
 */
export function age(time, now) {
	if (!time) return '';
	const seconds = Math.max(0, Math.floor((now - Date.parse(time)) / 1000));
	if (Number.isNaN(seconds)) return '';
	if (seconds < 120) return `${seconds}s`;
	const minutes = Math.floor(seconds / 60);
	if (minutes < 10) return seconds % 60 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
	if (minutes < 180) return `${minutes}m`;
	const hours = Math.floor(minutes / 60);
	if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
	if (hours < 48) return `${hours}h`;
	const days = Math.floor(hours / 24);
	if (days < 8) return hours % 24 ? `${days}d${hours % 24}h` : `${days}d`;
	return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

/** @type {Record<string, number>} */
const factors = {n: 1e-9, u: 1e-6, m: 1e-3, '': 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60};

/**
 * The number of a quantity, as in 250m or 1Gi; 0 where it is none.
 * @param {string|number|undefined} text
 */
export function quantity(text) {
	const match = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(String(text ?? ''));
	return match && match[2] in factors ? Number(match[1]) * factors[match[2]] : 0;
}

/** @param {number} cores */
export function cpu(cores) {
	return cores < 1 ? `${Math.round(cores * 1000)}m` : `${Number(cores.toFixed(cores < 10 ? 2 : 1))}`;
}

/** @param {number} bytes */
export function memory(bytes) {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
	let i = 0;
	for (; bytes >= 1024 && i < units.length - 1; i++) bytes /= 1024;
	return `${bytes < 10 && i > 0 ? bytes.toFixed(1) : Math.round(bytes)} ${units[i]}`;
}

const good = new Set(['Running', 'Active', 'Ready', 'Bound', 'Available', 'Complete', 'Completed', 'Succeeded', 'Normal', 'True', 'Established']);
const bad = /^(Failed|Error|.*BackOff|ErrImage.*|Invalid.*|.*Error|Evicted|OOMKilled|NotReady.*|Warning|Lost|Unknown|Init:.*(Error|BackOff))$/;

/**
 * How a state is coloured.
 * @param {string} state
 * @returns {'good'|'bad'|'warn'}
 */
export function mood(state) {
	if (good.has(state)) return 'good';
	return bad.test(state) ? 'bad' : 'warn';
}
