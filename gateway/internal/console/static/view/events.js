// The events of an object.

import {pathOf} from '../discovery.js';
import {h, notice} from '../dom.js';
import {liveTable} from './table.js';

/** @param {import('./object.js').Context} context */
export function eventsTab({app, object, signal, panel}) {
	const events = app.discovery.find('', 'events');
	if (!events) {
		panel.append(notice('The cluster serves no events.', 'warn'));
		return;
	}
	const {element} = liveTable(app, {
		path: pathOf(events, object.metadata.namespace ?? ''), kind: events, selection: {fieldSelector: `involvedObject.uid=${object.metadata.uid}`},
		hide: ['Object'], newestFirst: true, empty: 'No events are known: they are kept for an hour',
	}, signal);
	panel.append(h('section', {class: 'card'}, element));
}
