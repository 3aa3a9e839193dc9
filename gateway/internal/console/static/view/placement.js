// Why a pod is where it is, or nowhere: what the scheduler says of every node.

import {append, button, fill, h, notice, problem} from '../dom.js';

/** @param {import('./object.js').Context} context */
export async function placementTab({app, object, signal, panel}) {
	const place = h('div');
	const {namespace, name} = object.metadata;
	const load = async () => {
		try {
			fill(place, explained(await app.client.get(`/howdah/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/explain`, {signal})));
		} catch (error) {
			if (!signal.aborted) fill(place, problem(error));
		}
	};
	append(panel, h('div', {class: 'toolbar'}, button('Ask again', load)), place);
	await load();
}

/** @param {any} e an ExplainResponse */
function explained(e) {
	const nodes = e.nodes ?? [];
	return [
		e.node ? notice(`It is on the node ${e.node}, by the scheduler ${e.scheduler}.`, 'good') : notice(e.message || 'It is pending, and nodes could take it.', 'warn'),
		e.queue && h('p', null, `It waits in the queue “${e.queue}”, after ${e.attempts} attempts.`),
		nodes.length > 0 && h('section', {class: 'card'}, h('div', {class: 'scroll'}, h('table', null,
			h('thead', null, h('tr', null, ['Node', 'Verdict', 'Score', 'Why'].map((title) => h('th', {scope: 'col'}, title)))),
			h('tbody', null, nodes.map((/** @type {any} */ n) => h('tr', null,
				h('th', {scope: 'row'}, n.node),
				h('td', null, h('span', {class: `badge ${n.feasible ? 'good' : 'bad'}`}, n.feasible ? 'feasible' : 'refused')),
				h('td', null, n.feasible ? n.score : '–'),
				h('td', {class: 'long'}, n.feasible ? scores(n) : reasons(n)))))))),
	];
}

/** @param {any} node */
function scores(node) {
	return (node.scores ?? []).map((/** @type {any} */ s) => `${s.name} ${s.score}×${s.weight}`).join(', ');
}

/** @param {any} node */
function reasons(node) {
	return (node.filters ?? []).filter((/** @type {any} */ f) => !f.passed).map((/** @type {any} */ f) => `${f.filter}: ${(f.reasons ?? []).join(', ')}`).join('; ');
}
