package console

import (
	"strings"
	"testing"
)

// TestScreen writes what programs send to the terminal's screen, of ten columns and four rows.
func TestScreen(t *testing.T) {
	c := setup(t)
	c.page.Go(pageURL(""))
	for name, tt := range map[string]struct{ sent, want string }{
		"lines":               {`one\r\ntwo`, "one|two"},
		"wrapping":            {`0123456789ab`, "0123456789|ab"},
		"scrolling":           {`1\r\n2\r\n3\r\n4\r\n5`, "2|3|4|5"},
		"carriage return":     {`abc\rX`, "Xbc"},
		"backspace":           {`abc\b\bX`, "aXc"},
		"tab":                 {`a\tb`, "a       b"},
		"cursor":              {`\x1b[2;3Hx\x1b[Ay\x1b[1;1Hz`, "z  y|  x"},
		"erase to the end":    {`abcdef\x1b[3G\x1b[K`, "ab"},
		"erase the screen":    {`abc\r\ndef\x1b[2J\x1b[Hx`, "x"},
		"delete characters":   {`abcdef\x1b[2G\x1b[2P`, "adef"},
		"insert characters":   {`abc\x1b[2G\x1b[2@`, "a  bc"},
		"delete lines":        {`1\r\n2\r\n3\x1b[1;1H\x1b[M`, "2|3"},
		"insert lines":        {`1\r\n2\x1b[1;1H\x1b[L`, "|1|2"},
		"region":              {`1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n`, "1|3||4"},
		"alternate screen":    {`kept\x1b[?1049hfull\x1b[?1049l`, "kept"},
		"title, not shown":    {`\x1b]0;title\x07x\x1b]0;title\x1b\\y`, "xy"},
		"styles, not shown":   {`\x1b[1;4;38;5;200mx\x1b[0m`, "x"},
		"line drawing":        {`\x1b(0lqk\x1b(Bq`, "┌─┐q"},
		"wide":                {`世界x`, "世界x"},
		"wide at the end":     {`012345678世`, "012345678|世"},
		"combining":           {`e\u0301x`, "e\u0301x"},
		"unknown sequences":   {`\x1b[?2026h\x1b[>4;1m\x1b[0 q\x1b=x`, "x"},
		"too many parameters": {`\x1b[99999;99999Hx`, "|||         x"},
		"reverse feed":        {`1\r\n2\x1b[H\x1bMx`, "x|1|2"},
	} {
		got := c.page.Value(`import('/console/screen.js').then(({Screen}) => { const s = new Screen(10, 4); s.write("` + tt.sent + `"); return s.text(); })`)
		if got = strings.ReplaceAll(got, "\n", "|"); got != tt.want {
			t.Errorf("%s: %q, wanted %q", name, got, tt.want)
		}
	}
	if reply := c.page.Value(`import('/console/screen.js').then(({Screen}) => { let r = ''; new Screen(10, 4, (t) => { r += t; }).write("ab\x1b[6n"); return JSON.stringify(r); })`); reply != `"\u001b[1;3R"` {
		t.Errorf("the cursor is told as %s", reply)
	}
	if past := c.page.Value(`import('/console/screen.js').then(({Screen}) => { const s = new Screen(10, 4); for (let i = 0; i < 5000; i++) s.write(i + "\r\n"); return s.past.length; })`); past != "2000" {
		t.Errorf("%s lines are kept", past)
	}
}

// TestManifests holds the texts that the console cuts without reading them.
func TestManifests(t *testing.T) {
	c := setup(t)
	c.page.Go(pageURL(""))
	for name, tt := range map[string]struct{ script, want string }{
		"managed fields": {`m.withoutManagedFields("kind: X\nmetadata:\n  labels:\n    a: b\n  managedFields:\n  - manager: m\n    fieldsV1: {}\n  name: n\nspec: {}\n", "YAML")`,
			"kind: X|metadata:|  labels:|    a: b|  name: n|spec: {}|"},
		"a key of that name": {`m.withoutManagedFields("data:\n  managedFields:\n    x: y\nmetadata:\n  name: n\n", "YAML")`, "data:|  managedFields:|    x: y|metadata:|  name: n|"},
		"JSON":               {`m.withoutManagedFields('{"metadata":{"name":"n","managedFields":[]}}', 'JSON')`, `{|  "metadata": {|    "name": "n"|  }|}|`},
		"documents":          {`m.documents("a: 1\n--- # two\nb: 2\n---\n# nothing\n---\nc: |\n  ---\n").length`, "3"},
		"JSON is one":        {`m.documents('[{}]').length`, "1"},
		"nothing":            {`m.documents("\n---\n").length`, "0"},
		"quantities":         {`import('/console/format.js').then((f) => ['250m', '1Gi', '2', '1e3', '', 'x'].map(f.quantity).join())`, "0.25,1073741824,2,1000,0,0"},
		"ages":               {`import('/console/format.js').then((f) => [5, 150, 3600 * 5, 86400 * 9].map((s) => f.age(new Date(1e12 - s * 1000).toISOString(), 1e12)).join())`, "5s,2m30s,5h,9d"},
		"keys": {`import('/console/keys.js').then((k) => JSON.stringify([{key: 'c', ctrlKey: true}, {key: 'ArrowUp'}, {key: 'x', altKey: true}, {key: 'Tab', shiftKey: true}, {key: 'Shift'}].map((e) => k.sequence(e, false))))`,
			`["\u0003","\u001b[A","\u001bx","",""]`},
	} {
		got := c.page.Value(`import('/console/manifest.js').then((m) => ` + tt.script + `)`)
		if got = strings.ReplaceAll(got, "\n", "|"); got != tt.want {
			t.Errorf("%s: %q, wanted %q", name, got, tt.want)
		}
	}
}

// TestRelist gives a table a watch that is too old: it lists anew, and shows what there is.
func TestRelist(t *testing.T) {
	c := setup(t)
	c.page.Go(pageURL(""))
	got := c.page.Value(`Promise.all([import('/console/livetable.js'), import('/console/api.js')]).then(([{LiveTable}, {StatusError}]) => new Promise((resolve) => {
		const row = (name, resourceVersion) => ({cells: [name], object: {metadata: {uid: name, name, resourceVersion}}});
		const asked = [], ended = new AbortController();
		let lists = 0;
		const client = {
			get: async (path, {query}) => {
				if (query.continue) return {metadata: {}, rows: [row('later', '1'), row('gone', '1')]};
				lists++;
				return {columnDefinitions: [{name: 'Name'}], metadata: {resourceVersion: String(lists * 10), continue: lists === 1 ? 'token' : ''}, rows: [row('list' + lists, '1')]};
			},
			async *watch(path, {query}) {
				asked.push(query.resourceVersion);
				if (asked.length === 1) {
					yield {type: 'ADDED', object: {rows: [row('gone', '11')]}};
					yield {type: 'DELETED', object: {rows: [row('gone', '12')]}};
					await table.more(ended.signal);
					asked.push([...table.rows.keys()].join('+'));
					yield {type: 'BOOKMARK', object: {rows: [row('', '13')]}};
				} else if (asked.length === 3) {
					throw new StatusError({code: 410, reason: 'Expired', message: 'too old'});
				} else {
					yield {type: 'ADDED', object: {rows: [row('new', '21')]}};
					resolve([...asked, [...table.rows.keys()].join('+'), table.state].join());
					ended.abort();
				}
			},
		};
		const table = new LiveTable(client, '/x', {}, () => {});
		table.run(ended.signal);
	}))`)
	if want := "10,list1+later,13,20,list2+new,live"; got != want {
		t.Errorf("%s, wanted %s", got, want)
	}
}
