package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/sqlview"
)

// sql connects to the database of a server, whose kinds it publishes.
func (f *fixture) sql(t *testing.T, kinds []*registry.Kind) *pgx.Conn {
	t.Helper()
	url := f.server.cfg.DatabaseURL
	if _, err := sqlview.Publish(t.Context(), url, "", kinds); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// compact takes out of an object what the views leave out: empty structs and lists that JSON may show or not.
func compact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			value = compact(value)
			if m, ok := value.(map[string]any); ok && len(m) == 0 || value == nil {
				delete(v, key)
				continue
			}
			v[key] = value
		}
		return v
	case []any:
		for i := range v {
			v[i] = compact(v[i])
		}
		return v
	}
	return v
}

// richPod has what is not alike in protobuf and JSON: quantities, ports by name and number, inlined volume sources, bytes and maps.
const richPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"rich","finalizers":["example.com/a","example.com/b"]},"spec":{
	"containers":[{"name":"c","image":"i","args":["a",""],"env":[{"name":"E","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}},{"name":"F","value":""}],
		"resources":{"limits":{"cpu":"1500m","memory":"1Gi"},"requests":{"cpu":"100m"}},"ports":[{"name":"web","containerPort":80}],
		"readinessProbe":{"httpGet":{"port":"web"}},"livenessProbe":{"tcpSocket":{"port":80}},"lifecycle":{"preStop":{"exec":{"command":["true"]}}},
		"securityContext":{"runAsUser":0,"privileged":false,"capabilities":{"add":["NET_ADMIN"]}},"volumeMounts":[{"name":"v","mountPath":"/v"}]}],
	"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Mi"}},{"name":"p","projected":{"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":600}}]}}],
	"nodeSelector":{"a":"b"},"tolerations":[{"key":"k","operator":"Exists","effect":"NoExecute","tolerationSeconds":-1}],
	"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"podAffinityTerm":{"topologyKey":"z","labelSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}}}]}},
	"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway"}],"hostAliases":[{"ip":"1.2.3.4","hostnames":["h"]}]}}`

// TestSQLShowsWhatTheAPIShows compares the objects of every kind with those that SQL decodes.
func TestSQLShowsWhatTheAPIShows(t *testing.T) {
	t.Parallel()
	f := startPostgres(t)
	kinds := kind.All(kind.Config{Now: time.Now})
	table, err := registry.NewTable(kinds)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.create("v1/serviceaccounts", "default", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.create("v1/pods", "default", richPod); err != nil {
		t.Fatal(err)
	}
	for _, res := range table.Resources() {
		if res.Version != nil || bodies[res.Kind.Resource] == "" && res.Kind.Resource != "events" {
			continue
		}
		w := &walker{fixture: f, t: t, res: res}
		if res.Kind.Namespaced {
			w.namespace = "default"
		}
		name := "sql"
		switch res.Kind.Resource {
		case "ipaddresses":
			name = "10.96.7.7"
		case "apiservices":
			name = "v1.walk"
		case "storageversions":
			name = "walk.sql"
		}
		body := w.body(name)
		meta := body["metadata"].(map[string]any)
		meta["labels"], meta["annotations"] = map[string]any{"a": "b", "c": ""}, map[string]any{"note": "ü \"quoted\""}
		_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Group: res.GVR.Group, Version: res.GVR.Version, Resource: res.GVR.Resource,
			Namespace: w.namespace, Object: w.encode(body), FieldManager: "sql-test"})
		if err != nil {
			t.Errorf("%s: %v", res.GVR, err)
		}
	}
	conn := f.sql(t, kinds)
	compared := 0
	for _, res := range table.Resources() {
		if res.Version != nil || res.Kind.Custom != nil || res.Kind.Resource == "secrets" {
			continue
		}
		text, err := f.list(&apiv1.ListRequest{Group: res.GVR.Group, Version: res.GVR.Version, Resource: res.GVR.Resource})
		if err != nil {
			t.Fatalf("%s: %v", res.GVR, err)
		}
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for n, want := range list.Items {
			if n >= 5 { // of the many roles, a few
				break
			}
			meta := want["metadata"].(map[string]any)
			want["apiVersion"], want["kind"] = res.GVK.GroupVersion().String(), res.GVK.Kind
			var got map[string]any
			err := conn.QueryRow(t.Context(), "SELECT object FROM howdah_api.objects WHERE api_group = $1 AND resource = $2 AND namespace = $3 AND name = $4",
				res.GVR.Group, res.GVR.Resource, or(meta["namespace"]), meta["name"]).Scan(&got)
			if err != nil {
				t.Errorf("%s %s: %v", res.GVR, meta["name"], err)
				continue
			}
			if diff := cmp.Diff(compact(want), compact(got)); diff != "" {
				t.Errorf("%s %s (-API, +SQL):\n%s", res.GVR, meta["name"], diff)
			}
			compared++
		}
	}
	if compared < 50 {
		t.Errorf("only %d objects were compared", compared)
	}
}

func or(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return ""
}

// TestSQLReader looks as a member of howdah_reader: it sees the views and the past, no body of a Secret, and no table.
func TestSQLReader(t *testing.T) {
	t.Parallel()
	f := startPostgres(t)
	lives(t, f)
	for _, body := range []string{
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"note":"hidden"}},"stringData":{"password":"hidden"}}`,
	} {
		if _, err := f.create("v1/secrets", "default", body); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.create("v1/serviceaccounts", "default", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.create("v1/pods", "default", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"app":"x"}},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"nginx"}]}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.create("apps/v1/deployments", "default", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":3,"selector":{"matchLabels":{"app":"x"}},"template":`+podTemplate+`}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.create("v1/nodes", "", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"True"}],"capacity":{"cpu":"2"}}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.create("v1/events", "default", strings.ReplaceAll(`{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},`+strings.TrimPrefix(eventBodies["v1"], "{"), "NS", "default")); err != nil {
		t.Fatal(err)
	}
	conn := f.sql(t, kind.All(kind.Config{Now: time.Now}))
	if _, err := conn.Exec(t.Context(), "SET ROLE howdah_reader"); err != nil {
		t.Fatal(err)
	}
	ask := func(query string) string {
		t.Helper()
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			return err.Error()
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			values, err := row.Values()
			return strings.TrimSpace(fmt.Sprintln(values...)), err
		})
		if err != nil {
			return err.Error()
		}
		return strings.Join(all, "; ")
	}
	for query, want := range map[string]string{
		"SELECT namespace, name, node, labels ->> 'app' FROM howdah_api.pods":                                           "default p n1 x",
		"SELECT name, object #>> '{spec,containers,0,image}' FROM howdah_api.pods WHERE object @> '{\"kind\":\"Pod\"}'": "p nginx",
		"SELECT name, replicas, ready FROM howdah_api.deployments":                                                      "d 3 0",
		"SELECT name, ready, unschedulable, capacity ->> 'cpu' FROM howdah_api.nodes":                                   "n1 true false 2",
		"SELECT about_kind, about_name, reason, message, count FROM howdah_api.events":                                  "Pod p R m 1",
		"SELECT count(*) FROM howdah_api.namespaces WHERE name = 'default' AND phase = 'Active'":                        "1",
		"SELECT operation, verb, username, manager, object #>> '{data,key}', previous #>> '{data,key}' FROM howdah_api.changes WHERE resource = 'configmaps' AND name = 'c' AND username = 'jane' ORDER BY revision":          "UPDATED apply jane jane-tool two one; DELETED delete jane kubectl <nil> two",
		"SELECT a.object #>> '{data,key}' FROM howdah_api.changes c, howdah_api.objects_at(c.revision) a WHERE c.name = 'c' AND c.resource = 'configmaps' AND a.name = 'c' AND a.resource = 'configmaps' ORDER BY c.revision": "one; two; three",
		"SELECT count(*) > 5 FROM howdah_api.objects_at(howdah_api.revision_at(now()))":                      "true",
		"SELECT name, object FROM howdah_api.objects WHERE resource = 'secrets'":                             "s <nil>",
		"SELECT count(*), count(object), count(previous) FROM howdah_api.changes WHERE resource = 'secrets'": "1 0 0",
	} {
		if got := ask(query); got != want {
			t.Errorf("%s\n got %s\nwant %s", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"SELECT * FROM howdah.object":     "permission denied",
		"SELECT * FROM howdah.change":     "permission denied",
		"SELECT * FROM howdah_api.stored": "permission denied",
		"DELETE FROM howdah_api.objects":  "cannot delete from view",
		"SELECT howdah.lead('x', 'y')":    "permission denied",
		"SELECT * FROM howdah_api.objects_at(howdah_api.revision_at('2020-01-01')) WHERE false": "",
		"SELECT * FROM howdah_api.objects_at(1099511627776)":                                    "states can be read from revision",
	} {
		if got := ask(query); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
