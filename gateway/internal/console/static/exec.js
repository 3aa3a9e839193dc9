// A command in a container, over a WebSocket in Kubernetes' v5.channel.k8s.io.

import {encodeQuery} from './api.js';

/** @typedef {import('./api.js').Client} Client */

const protocol = 'v5.channel.k8s.io';
const tokenProtocol = 'base64url.bearer.authorization.k8s.io.';
const stdin = 0, stdout = 1, stderr = 2, outcome = 3, resize = 4;

/**
 * @typedef {object} Events
 * @property {() => void} opened
 * @property {(text: string) => void} output
 * @property {(message: string) => void} ended
 */

export class Exec {
	/**
	 * @param {Client} client
	 * @param {string} path of the pod's exec
	 * @param {string} container
	 * @param {string[]} command
	 * @param {Events} events
	 */
	constructor(client, path, container, command, events) {
		const target = path + encodeQuery({container, command, stdin: 'true', stdout: 'true', tty: 'true'});
		const protocols = [protocol];
		if (client.session.token) protocols.push(tokenProtocol + base64url(client.session.token));
		this.events = events;
		this.outcome = '';
		this.open = false;
		this.decoder = new TextDecoder();
		this.socket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}${target}`, protocols);
		this.socket.binaryType = 'arraybuffer';
		this.socket.addEventListener('open', () => {
			this.open = true;
			events.opened();
		});
		this.socket.addEventListener('message', (event) => this.#message(new Uint8Array(event.data)));
		this.socket.addEventListener('close', async () => {
			const opened = this.open;
			this.open = false;
			events.ended(opened ? this.outcome || 'The connection ended.' : await reason(client, target));
		});
	}

	/** @param {Uint8Array} message */
	#message(message) {
		const data = message.subarray(1);
		if (message[0] === stdout || message[0] === stderr) {
			if (data.length) this.events.output(this.decoder.decode(data, {stream: true}));
		} else if (message[0] === outcome) {
			const status = JSON.parse(new TextDecoder().decode(data));
			this.outcome = status.status === 'Success' ? 'The command has ended.' : status.message;
		}
	}

	/** @param {string} text */
	type(text) {
		this.#send(stdin, text);
	}

	/**
	 * @param {number} columns
	 * @param {number} rows
	 */
	resize(columns, rows) {
		this.#send(resize, JSON.stringify({Width: columns, Height: rows}));
	}

	/**
	 * @param {number} channel
	 * @param {string} text
	 */
	#send(channel, text) {
		if (!this.open) return;
		const data = new TextEncoder().encode(text);
		const message = new Uint8Array(data.length + 1);
		message[0] = channel;
		message.set(data, 1);
		this.socket.send(message);
	}

	close() {
		this.socket.close();
	}
}

/**
 * Why a WebSocket was not opened, which browsers do not tell: what the same request without an upgrade is answered.
 * @param {Client} client
 * @param {string} target
 */
async function reason(client, target) {
	try {
		await client.send('GET', target);
	} catch (error) {
		return /** @type {Error} */ (error).message;
	}
	return 'The connection could not be opened.';
}

/** @param {string} text ASCII, as tokens are */
function base64url(text) {
	return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}
