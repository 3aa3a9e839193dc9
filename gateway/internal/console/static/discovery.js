// The kinds that the cluster serves, by aggregated discovery, and the parts of the navigation that they belong to.

/** @typedef {import('./api.js').Client} Client */

/**
 * @typedef {object} Kind
 * @property {string} group '' is the core group
 * @property {string} version
 * @property {string} resource plural, as in paths
 * @property {string} kind
 * @property {boolean} namespaced
 * @property {Set<string>} verbs
 * @property {Set<string>} subresources
 */

const accept = 'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList';

/** The parts of the navigation, in order, with the resources that they list first. */
const sections = [
	{title: 'Workloads', resources: ['pods', 'apps/deployments', 'apps/statefulsets', 'apps/daemonsets', 'apps/replicasets', 'batch/jobs', 'batch/cronjobs',
		'autoscaling/horizontalpodautoscalers', 'policy/poddisruptionbudgets', 'replicationcontrollers']},
	{title: 'Services', resources: ['services', 'networking.k8s.io/ingresses', 'networking.k8s.io/networkpolicies', 'discovery.k8s.io/endpointslices', 'endpoints',
		'networking.k8s.io/ingressclasses']},
	{title: 'Config', resources: ['configmaps', 'secrets', 'resourcequotas', 'limitranges', 'scheduling.k8s.io/priorityclasses']},
	{title: 'Storage', resources: ['persistentvolumeclaims', 'persistentvolumes', 'storage.k8s.io/storageclasses', 'storage.k8s.io/volumeattachments',
		'storage.k8s.io/csidrivers', 'storage.k8s.io/csinodes']},
	{title: 'RBAC', resources: ['serviceaccounts', 'rbac.authorization.k8s.io/roles', 'rbac.authorization.k8s.io/rolebindings',
		'rbac.authorization.k8s.io/clusterroles', 'rbac.authorization.k8s.io/clusterrolebindings']},
	{title: 'Cluster', resources: ['nodes', 'namespaces', 'events', 'apiextensions.k8s.io/customresourcedefinitions', 'apiregistration.k8s.io/apiservices',
		'coordination.k8s.io/leases']},
];

/** Groups that Kubernetes itself has; what is in others is a custom resource. */
const builtIn = new Set(['', 'apps', 'batch', 'autoscaling', 'policy', 'extensions', 'events.k8s.io', 'authentication.k8s.io', 'authorization.k8s.io',
	'admissionregistration.k8s.io', 'apiextensions.k8s.io', 'apiregistration.k8s.io', 'certificates.k8s.io', 'coordination.k8s.io', 'discovery.k8s.io',
	'flowcontrol.apiserver.k8s.io', 'internal.apiserver.k8s.io', 'networking.k8s.io', 'node.k8s.io', 'rbac.authorization.k8s.io', 'resource.k8s.io',
	'scheduling.k8s.io', 'storage.k8s.io', 'storagemigration.k8s.io', 'metrics.k8s.io']);

export class Discovery {
	/** @param {Kind[]} kinds */
	constructor(kinds) {
		this.kinds = kinds;
	}

	/**
	 * @param {string} group
	 * @param {string} resource
	 * @param {string} [version] the preferred one where it is not given
	 */
	find(group, resource, version) {
		return this.kinds.find((k) => k.group === group && k.resource === resource && (!version || k.version === version));
	}

	/**
	 * The kind of a reference from one object to another.
	 * @param {string} apiVersion
	 * @param {string} kind
	 */
	ofReference(apiVersion, kind) {
		const [group, version] = apiVersion.includes('/') ? apiVersion.split('/') : ['', apiVersion];
		const all = this.kinds.filter((k) => k.group === group && k.kind === kind);
		return all.find((k) => k.version === version) ?? all[0];
	}

	/**
	 * The navigation: each resource in its preferred version.
	 * @returns {{title: string, kinds: Kind[]}[]}
	 */
	navigation() {
		/** @type {Map<string, Kind>} */
		const left = new Map();
		for (const kind of this.kinds) {
			const key = keyOf(kind);
			if (kind.verbs.has('list') && !left.has(key) && kind.group !== 'metrics.k8s.io' && !(kind.group === 'events.k8s.io' || kind.group === 'extensions')) left.set(key, kind);
		}
		const parts = sections.map(({title, resources}) => ({title, kinds: /** @type {Kind[]} */ (resources.flatMap((key) => {
			const kind = left.get(key);
			left.delete(key);
			return kind ? [kind] : [];
		}))}));
		const rest = [...left.values()].sort((a, b) => a.kind.localeCompare(b.kind));
		parts[parts.length - 1].kinds.push(...rest.filter((kind) => builtIn.has(kind.group)));
		parts.push({title: 'Custom resources', kinds: rest.filter((kind) => !builtIn.has(kind.group))});
		return parts.filter((part) => part.kinds.length > 0);
	}
}

/** @param {Kind} kind */
function keyOf(kind) {
	return kind.group ? `${kind.group}/${kind.resource}` : kind.resource;
}

/**
 * Asks what there is.
 * @param {Client} client
 */
export async function discover(client) {
	const [core, groups] = await Promise.all([client.get('/api', {accept}), client.get('/apis', {accept})]);
	return new Discovery([core, groups].flatMap(kindsOf));
}

/**
 * The kinds of an APIGroupDiscoveryList, versions in the order that the server prefers.
 * @param {any} list
 * @returns {Kind[]}
 */
export function kindsOf(list) {
	return (list.items ?? []).flatMap((/** @type {any} */ group) => (group.versions ?? []).flatMap((/** @type {any} */ version) =>
		(version.resources ?? []).map((/** @type {any} */ r) => ({
			group: group.metadata?.name ?? '', version: version.version, resource: r.resource, kind: r.responseKind?.kind ?? r.resource,
			namespaced: r.scope === 'Namespaced', verbs: new Set(r.verbs ?? []),
			subresources: new Set((r.subresources ?? []).map((/** @type {any} */ s) => s.subresource)),
		}))));
}

/**
 * The path of a collection, of an object, or of an object's subresource.
 * @param {Kind} kind
 * @param {string} [namespace] '' is all
 * @param {string} [name]
 * @param {string} [subresource]
 */
export function pathOf(kind, namespace, name, subresource) {
	const parts = kind.group ? ['apis', kind.group, kind.version] : ['api', kind.version];
	if (kind.namespaced && namespace) parts.push('namespaces', namespace);
	parts.push(kind.resource);
	if (name) parts.push(name);
	if (subresource) parts.push(subresource);
	return `/${parts.map(encodeURIComponent).join('/')}`;
}

/**
 * The title of a collection: "Deployments" for the kind Deployment and the resource deployments.
 * @param {Kind} kind
 */
export function titleOf({kind, resource}) {
	const lower = kind.toLowerCase();
	if (resource.startsWith(lower)) return kind + resource.slice(lower.length);
	return resource === lower.replace(/y$/, 'ies') ? kind.replace(/y$/, 'ies') : kind;
}
