// Manifests as texts. They are read by the server; here they are cut where that needs no reading.

/**
 * An object without metadata.managedFields, which nobody edits. The YAML is as the server writes it: what belongs to a key of metadata is
 * indented by more than two, or an item of a list indented by two.
 * @param {string} text
 * @param {string} format YAML or JSON
 */
export function withoutManagedFields(text, format) {
	if (format === 'JSON') {
		const object = JSON.parse(text);
		delete object.metadata?.managedFields;
		return `${JSON.stringify(object, null, 2)}\n`;
	}
	let inMetadata = false, cutting = false;
	return text.split('\n').filter((line) => {
		if (/^\S/.test(line)) {
			inMetadata = line === 'metadata:';
			cutting = false;
		} else if (inMetadata && /^ {2}[^ -]/.test(line)) {
			cutting = line === '  managedFields:';
		}
		return !cutting;
	}).join('\n');
}

/**
 * The documents of a YAML stream: a line that begins with --- stands between them, wherever it is. JSON is one document.
 * @param {string} text
 * @returns {string[]} those that are not empty
 */
export function documents(text) {
	if (/^\s*[{[]/.test(text)) return [text];
	return text.split(/^---(?=\s|$)/m).filter((part) => part.split('\n').some((line) => line.trim() && !line.trim().startsWith('#')));
}

/**
 * A Deployment, and a Service where there is a port, for the form.
 * @param {{name: string, namespace: string, image: string, replicas: number, port: number|null, type: string}} values
 * @returns {any[]}
 */
export function deployment({name, namespace, image, replicas, port, type}) {
	const labels = {'app.kubernetes.io/name': name};
	const container = {name, image, ...(port ? {ports: [{containerPort: port}]} : {})};
	/** @type {any[]} */
	const objects = [{
		apiVersion: 'apps/v1', kind: 'Deployment', metadata: {name, namespace, labels},
		spec: {replicas, selector: {matchLabels: labels}, template: {metadata: {labels}, spec: {containers: [container]}}},
	}];
	if (port) {
		objects.push({apiVersion: 'v1', kind: 'Service', metadata: {name, namespace, labels}, spec: {type, selector: labels, ports: [{port, targetPort: port}]}});
	}
	return objects;
}
