// Elements are built here and nowhere else. What comes from the cluster becomes text nodes and attributes, never markup.

/** @typedef {Node|string|number|null|undefined|false} Child */

/**
 * Builds an element. Properties are attributes, but `on`, which holds listeners by event, and `value`, `checked` and the like of fields.
 * @param {string} name
 * @param {Record<string, any>|null} [properties]
 * @param {...(Child|Child[])} children
 * @returns {any} the element
 */
export function h(name, properties, ...children) {
	const element = document.createElement(name);
	for (const [key, value] of Object.entries(properties ?? {})) {
		if (value === undefined || value === null || value === false) continue;
		if (key === 'on') {
			for (const [event, listener] of Object.entries(value)) element.addEventListener(event, /** @type {any} */ (listener));
		} else if (key === 'value' || key === 'checked' || key === 'disabled' || key === 'selected') {
			/** @type {any} */ (element)[key] = value;
		} else if (key === 'href') {
			element.setAttribute('href', safeLink(String(value)));
		} else {
			element.setAttribute(key, value === true ? '' : String(value));
		}
	}
	append(element, ...children);
	return element;
}

/**
 * Appends children; texts become text nodes.
 * @param {Node} parent
 * @param {...(Child|Child[])} children
 */
export function append(parent, ...children) {
	for (const child of children.flat()) {
		if (child === null || child === undefined || child === false) continue;
		parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
	}
}

/**
 * Replaces all that is in an element.
 * @param {Element} parent
 * @param {...(Child|Child[])} children
 */
export function fill(parent, ...children) {
	parent.replaceChildren();
	append(parent, ...children);
}

/**
 * Links lead to pages of the console, or over HTTP; whatever else is one that leads nowhere.
 * @param {string} link
 */
export function safeLink(link) {
	return /^(#|https?:\/\/)/.test(link) ? link : '#/';
}

/**
 * A button.
 * @param {string} label
 * @param {(event: Event) => any} click
 * @param {Record<string, any>} [properties]
 */
export function button(label, click, properties) {
	return h('button', {type: 'button', on: {click}, ...properties}, label);
}

/**
 * A field with its label.
 * @param {string} label
 * @param {HTMLElement} field
 */
export function labelled(label, field) {
	return h('label', {class: 'field'}, h('span', null, label), field);
}

/**
 * A choice of values.
 * @param {(string|[string, string])[]} options values, or pairs of value and text
 * @param {string} value
 * @param {(value: string) => any} change
 * @param {Record<string, any>} [properties]
 */
export function choice(options, value, change, properties) {
	return h('select', {...properties, on: {change: (/** @type {any} */ event) => change(event.target.value)}},
		options.map((option) => {
			const [key, text] = Array.isArray(option) ? option : [option, option];
			return h('option', {value: key, selected: key === value}, text);
		}));
}

/**
 * What went wrong, in Kubernetes' own words.
 * @param {any} error
 */
export function problem(error) {
	const code = error?.code ? `${error.code} ${error.reason || ''}`.trim() : '';
	return h('div', {class: 'notice bad', role: 'alert'}, code && h('strong', null, code), ' ', error?.message ?? String(error));
}

/**
 * @param {string} text
 * @param {string} [kind] '', 'good' or 'warn'
 */
export function notice(text, kind = '') {
	return h('div', {class: `notice ${kind}`, role: 'status'}, text);
}
