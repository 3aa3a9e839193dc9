// Who is signed in. The token is in the tab's session storage and nowhere else: it goes with the tab, and by signing out.

const tokenKey = 'howdah.token';
const namespaceKey = 'howdah.namespace';

export class Session {
	/** @param {Storage} storage */
	constructor(storage) {
		this.storage = storage;
		/** @type {{username: string, groups: string[]}|null} */
		this.user = null;
	}

	/** The bearer token, or '' for the browser's certificate. */
	get token() {
		return this.storage.getItem(tokenKey) ?? '';
	}

	/** @param {string} token */
	signIn(token) {
		this.storage.setItem(tokenKey, token);
	}

	/** Forgets all there is. */
	signOut() {
		this.storage.removeItem(tokenKey);
		this.storage.removeItem(namespaceKey);
		this.user = null;
	}

	/** The namespace that was looked at last; '' is all. */
	get namespace() {
		return this.storage.getItem(namespaceKey) ?? '';
	}

	set namespace(name) {
		this.storage.setItem(namespaceKey, name);
	}
}
