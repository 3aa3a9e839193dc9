// The Kubernetes API of this origin, asked with the credentials of whoever is signed in.

/** @typedef {import('./session.js').Session} Session */
/** @typedef {{body?: any, type?: string, accept?: string, query?: Record<string, any>, signal?: AbortSignal, seconds?: number, again?: boolean}} Options again says that a request changes nothing, as those of GET */

/** How often a request that changes nothing is sent again when the connection breaks, as when the machine goes to another network. */
const moreAttempts = 3;
const requestSeconds = 60;
const watchSeconds = 300;
/** The longest line of a watch, in characters: an object is at most 3 MiB. */
const maxLine = 16 << 20;

/** A Status of Kubernetes that says what went wrong. */
export class StatusError extends Error {
	/** @param {any} status */
	constructor(status) {
		super(status.message || status.reason || `the answer was ${status.code}`);
		this.code = status.code ?? 0;
		this.reason = status.reason ?? '';
		this.details = status.details ?? {};
	}
}

export class Client {
	/**
	 * @param {Session} session
	 * @param {(error: StatusError) => void} refused is called when the credentials are not good any more
	 */
	constructor(session, refused) {
		this.session = session;
		this.refused = refused;
	}

	/**
	 * Sends a request, and returns the answer if it is a good one.
	 * @param {string} method
	 * @param {string} path
	 * @param {Options} [options]
	 */
	async send(method, path, options = {}) {
		const headers = new Headers({Accept: options.accept ?? 'application/json'});
		if (this.session.token) headers.set('Authorization', `Bearer ${this.session.token}`);
		if (options.body !== undefined) headers.set('Content-Type', options.type ?? 'application/json');
		const body = options.body === undefined || typeof options.body === 'string' ? options.body : JSON.stringify(options.body);
		const late = AbortSignal.timeout((options.seconds ?? requestSeconds) * 1000);
		const signal = options.signal ? AbortSignal.any([options.signal, late]) : late;
		const response = await reach(path + encodeQuery(options.query), {method, headers, body, signal, cache: 'no-store', redirect: 'error'},
			method === 'GET' || options.again ? moreAttempts : 0, signal);
		if (response.ok) return response;
		const error = new StatusError(await statusOf(response));
		if (response.status === 401) this.refused(error);
		throw error;
	}

	/**
	 * @param {string} method
	 * @param {string} path
	 * @param {Options} [options]
	 * @returns {Promise<any>} the object of the answer
	 */
	async call(method, path, options) {
		return (await this.send(method, path, options)).json();
	}

	/**
	 * @param {string} path
	 * @param {Options} [options]
	 */
	get(path, options) {
		return this.call('GET', path, options);
	}

	/**
	 * Watches, until the server ends it or the signal does. An ERROR event is thrown.
	 * @param {string} path
	 * @param {Options} options with the query's resourceVersion
	 * @returns {AsyncGenerator<{type: string, object: any}>}
	 */
	async *watch(path, options) {
		const response = await this.send('GET', path, {
			...options, seconds: watchSeconds + requestSeconds,
			query: {...options.query, watch: 'true', allowWatchBookmarks: 'true', timeoutSeconds: watchSeconds},
		});
		for await (const line of lines(response)) {
			const event = JSON.parse(line);
			if (event.type === 'ERROR') throw new StatusError(event.object);
			yield event;
		}
	}
}

/**
 * Sends a request, and sends it again, a few times, if it does not get through.
 * @param {string} target
 * @param {RequestInit} request
 * @param {number} attempts how many more there may be
 * @param {AbortSignal} signal
 */
async function reach(target, request, attempts, signal) {
	for (let failures = 0; ; failures++) {
		try {
			return await fetch(target, request);
		} catch (error) {
			if (signal.aborted || !(error instanceof TypeError)) throw error;
			if (failures >= attempts) throw new Error('The gateway cannot be reached.', {cause: error});
			await pause(backOff(failures), signal);
		}
	}
}

/**
 * @param {Response} response
 * @returns {Promise<any>} the Status of an answer that is not a good one
 */
async function statusOf(response) {
	const text = await response.text();
	try {
		const status = JSON.parse(text);
		if (status.kind === 'Status') return status;
	} catch {
		// no Status: what is between here and there answered
	}
	return {code: response.status, message: text.slice(0, 1000) || response.statusText};
}

/** @param {Record<string, any>} [query] values that are undefined or '' are left out */
export function encodeQuery(query = {}) {
	const all = new URLSearchParams();
	for (const [key, value] of Object.entries(query)) {
		for (const one of Array.isArray(value) ? value : [value]) {
			if (one !== undefined && one !== '' && one !== false) all.append(key, String(one));
		}
	}
	const text = all.toString();
	return text && `?${text}`;
}

/**
 * The lines of an answer, as they come.
 * @param {Response} response
 * @returns {AsyncGenerator<string>}
 */
export async function* lines(response) {
	let rest = '';
	for await (const piece of pieces(response)) {
		rest += piece;
		const parts = rest.split('\n');
		rest = parts.pop() ?? '';
		if (rest.length > maxLine) throw new Error('a line of the answer is too long');
		for (const part of parts) if (part) yield part;
	}
	if (rest) yield rest;
}

/**
 * The text of an answer, as it comes.
 * @param {Response} response
 * @returns {AsyncGenerator<string>}
 */
export async function* pieces(response) {
	if (!response.body) return;
	const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
	try {
		for (;;) {
			const {done, value} = await reader.read();
			if (done) return;
			yield value;
		}
	} finally {
		reader.cancel().catch(() => {}); // the answer has ended, or nobody reads it any more
	}
}

/**
 * The texts of the Warning headers.
 * @param {Response} response
 * @returns {string[]}
 */
export function warnings(response) {
	const header = response.headers.get('Warning') ?? '';
	return [...header.matchAll(/\d{3} \S+ "((?:[^"\\]|\\.)*)"/g)].map((match) => match[1].replace(/\\(.)/g, '$1'));
}

/**
 * Waits.
 * @param {number} milliseconds
 * @param {AbortSignal} signal ends it early
 * @returns {Promise<void>}
 */
export function pause(milliseconds, signal) {
	return new Promise((resolve) => {
		const done = () => {
			clearTimeout(timer);
			signal.removeEventListener('abort', done);
			resolve();
		};
		const timer = setTimeout(done, milliseconds);
		signal.addEventListener('abort', done);
		if (signal.aborted) done();
	});
}

/**
 * How long to wait before the next attempt, in milliseconds: doubled each time up to half a minute, and spread.
 * @param {number} failures
 */
export function backOff(failures) {
	return Math.min(30_000, 500 * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2);
}
