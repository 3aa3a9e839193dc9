// Pages are named by the part of the address behind #, which the server never sees.

/** @typedef {import('./discovery.js').Kind} Kind */
/** @typedef {{parts: string[], query: URLSearchParams}} Route */

/** Stands for the core group and for no namespace: neither is a name that there can be. */
const none = '-';

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parse(hash) {
	const [path, query] = hash.replace(/^#\/?/, '').split('?', 2);
	return {parts: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(query ?? '')};
}

/** @param {string} part */
function decode(part) {
	try {
		return decodeURIComponent(part);
	} catch {
		return part;
	}
}

/**
 * @param {string[]} parts
 * @param {Record<string, string>} [query] empty values are left out
 */
export function href(parts, query = {}) {
	const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
	return `#/${parts.map(encodeURIComponent).join('/')}${text && `?${text}`}`;
}

/**
 * @param {Kind} kind
 * @param {Record<string, string>} [query]
 */
export function listHref(kind, query) {
	return href(['list', kind.group || none, kind.version, kind.resource], query);
}

/**
 * @param {Kind} kind
 * @param {string|undefined} namespace
 * @param {string} name
 * @param {string} [tab]
 */
export function objectHref(kind, namespace, name, tab) {
	const parts = ['object', kind.group || none, kind.version, kind.resource, namespace || none, name];
	return href(tab ? [...parts, tab] : parts);
}

/** @param {string} part */
export function emptyOf(part) {
	return part === none ? '' : part;
}
