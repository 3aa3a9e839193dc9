// The choice of a pod's container.

import {choice, labelled} from '../dom.js';

/**
 * The names of all containers, those that run first.
 * @param {any} pod
 * @returns {string[]}
 */
export function containerNames(pod) {
	return [...(pod.spec.containers ?? []), ...(pod.spec.ephemeralContainers ?? []), ...(pod.spec.initContainers ?? [])].map((c) => c.name);
}

/**
 * The one that is meant where none is named.
 * @param {any} pod
 */
export function defaultContainer(pod) {
	const named = pod.metadata.annotations?.['kubectl.kubernetes.io/default-container'];
	return containerNames(pod).includes(named) ? named : pod.spec.containers[0].name;
}

/**
 * @param {any} pod
 * @param {string} value
 * @param {(name: string) => void} change
 */
export function containerField(pod, value, change) {
	return labelled('Container', choice(containerNames(pod), value, change, {name: 'container'}));
}
