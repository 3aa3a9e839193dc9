// A collection as the server's Table, followed by a watch: what is shown is what there is.

import {StatusError, backOff, pause} from './api.js';

/** @typedef {import('./api.js').Client} Client */
/** @typedef {{name: string, type: string, priority: number, description: string}} Column */
/** @typedef {{cells: any[], object: any}} Row */
/** @typedef {{labelSelector?: string, fieldSelector?: string}} Selection */

const accept = 'application/json;as=Table;v=v1;g=meta.k8s.io,application/json';
const pageSize = 250;

/** What another attempt would not mend. */
const final = new Set([400, 401, 403, 404, 405, 406]);

export class LiveTable {
	/**
	 * @param {Client} client
	 * @param {string} path
	 * @param {Selection} selection
	 * @param {() => void} changed
	 */
	constructor(client, path, selection, changed) {
		this.client = client;
		this.path = path;
		this.selection = selection;
		this.changed = changed;
		/** @type {Column[]} */
		this.columns = [];
		/** @type {Map<string, Row>} rows by uid */
		this.rows = new Map();
		/** @type {Set<string>} uids that the watch told of: a page that is read later knows less */
		this.told = new Set();
		this.continue = '';
		this.remaining = 0;
		this.resourceVersion = '';
		/** @type {'loading'|'live'|'away'|'failed'} */
		this.state = 'loading';
		/** @type {any} */
		this.error = null;
	}

	/**
	 * Lists and watches until the signal ends it.
	 * @param {AbortSignal} signal
	 */
	async run(signal) {
		for (let failures = 0; !signal.aborted; failures++) {
			try {
				await this.#list(signal);
				failures = 0;
				await this.#follow(signal);
			} catch (error) {
				if (signal.aborted) return;
				this.#failed(error);
				if (error instanceof StatusError && final.has(error.code)) return;
			}
			await pause(backOff(failures), signal);
		}
	}

	/** @param {any} error */
	#failed(error) {
		const ended = error instanceof StatusError && final.has(error.code);
		this.state = ended ? 'failed' : 'away';
		this.error = error;
		this.changed();
	}

	/** @param {AbortSignal} signal */
	async #list(signal) {
		const table = await this.#page(signal, {});
		this.columns = table.columnDefinitions ?? [];
		this.rows = new Map();
		this.told = new Set();
		this.#take(table);
		this.resourceVersion = table.metadata?.resourceVersion ?? '';
		this.state = 'live';
		this.error = null;
		this.changed();
	}

	/**
	 * @param {AbortSignal} signal
	 * @param {Record<string, string>} query
	 */
	#page(signal, query) {
		return this.client.get(this.path, {accept, signal, query: {...this.selection, limit: pageSize, ...query}});
	}

	/** @param {any} table a page */
	#take(table) {
		for (const row of table.rows ?? []) {
			const uid = uidOf(row);
			if (!this.told.has(uid)) this.rows.set(uid, row);
		}
		this.continue = table.metadata?.continue ?? '';
		this.remaining = table.metadata?.remainingItemCount ?? 0;
	}

	/**
	 * Reads the next page.
	 * @param {AbortSignal} signal
	 */
	async more(signal) {
		try {
			this.#take(await this.#page(signal, {continue: this.continue}));
		} catch (error) {
			if (!(error instanceof StatusError) || error.code !== 410) throw error;
			this.continue = ''; // the pages are too old to go on with
			await this.#list(signal);
		}
		this.changed();
	}

	/**
	 * Watches, again and again from where it was; returns when the collection has to be listed anew.
	 * @param {AbortSignal} signal
	 */
	async #follow(signal) {
		for (let failures = 0; !signal.aborted; failures++) {
			try {
				const options = {accept, signal, query: {...this.selection, resourceVersion: this.resourceVersion}};
				for await (const event of this.client.watch(this.path, options)) {
					failures = 0;
					this.#apply(event);
				}
			} catch (error) {
				if (signal.aborted) return;
				if (error instanceof StatusError && error.code === 410) return;
				if (error instanceof StatusError && final.has(error.code)) throw error;
				this.#failed(error);
			}
			await pause(backOff(failures), signal);
		}
	}

	/** @param {{type: string, object: any}} event */
	#apply(event) {
		const table = event.object;
		if (table.columnDefinitions?.length) this.columns = table.columnDefinitions;
		for (const row of table.rows ?? []) {
			const version = row.object?.metadata?.resourceVersion;
			if (version) this.resourceVersion = version;
			if (event.type === 'BOOKMARK') continue;
			const uid = uidOf(row);
			this.told.add(uid);
			if (event.type === 'DELETED') this.rows.delete(uid);
			else this.rows.set(uid, row);
		}
		if (table.metadata?.resourceVersion) this.resourceVersion = table.metadata.resourceVersion;
		this.state = 'live';
		this.error = null;
		this.changed();
	}
}

/** @param {Row} row */
export function uidOf(row) {
	const m = row.object?.metadata ?? {};
	return m.uid ?? `${m.namespace ?? ''}/${m.name ?? ''}`;
}
