package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const grafanaFolder = "../../deploy/compose/grafana"

// panelQuery is one query of a panel.
type panelQuery struct {
	Panel, Datasource string // the datasource's uid
	Expr              string // PromQL
	Service           string // of a search in Jaeger
	Operation         string // of the same; empty for any
	Limit             int
}

func (q panelQuery) String() string {
	return fmt.Sprintf("panel %q: %s%s %s", q.Panel, q.Expr, q.Service, q.Operation)
}

// readDashboards returns every query of every dashboard.
func readDashboards(t *testing.T) []panelQuery {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(grafanaFolder, "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards (%v)", err)
	}
	type datasource struct{ Type, UID string }
	var queries []panelQuery
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title      string
				Datasource datasource
				Targets    []struct {
					Datasource               datasource
					Expr, Service, Operation string
					Limit                    int
				}
			}
		}
		if err := json.Unmarshal(data, &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				uid := target.Datasource.UID
				if uid == "" {
					uid = p.Datasource.UID
				}
				queries = append(queries, panelQuery{p.Title, uid, target.Expr, target.Service, target.Operation, target.Limit})
			}
		}
	}
	return queries
}

// may be empty in a healthy cluster.
func mayBeEmpty(q panelQuery) bool { return strings.Contains(q.Expr, `!="OK"`) }

// notMetrics are what surrounds the names of metrics in PromQL.
var notMetrics = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(by|without|on|ignoring)\s*\([^)]*\)|\b[a-z_]+\s*\(|\b\d+(\.\d+)?\b`)

// metricsOf returns the names of the metrics in a query.
func metricsOf(expr string) []string {
	previous := ""
	for previous != expr { // functions nest
		previous = expr
		expr = notMetrics.ReplaceAllString(expr, " ")
	}
	names := regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`).FindAllString(expr, -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// telemetry is where the queries are asked.
type telemetry struct{ prometheus, jaeger string }

// check runs a query as Grafana does and returns what is wrong with it.
func (c telemetry) check(q panelQuery, known map[string]bool) error {
	switch q.Datasource {
	case "prometheus":
		for _, name := range metricsOf(q.Expr) {
			if !known[name] {
				return fmt.Errorf("%s: Prometheus knows no metric %s", q, name)
			}
		}
		expr := strings.ReplaceAll(q.Expr, "$__rate_interval", "1m")
		if strings.Contains(expr, "$") {
			return fmt.Errorf("%s: a variable that Grafana does not fill in", q)
		}
		end := time.Now()
		var result struct {
			Data struct{ Result []json.RawMessage }
		}
		err := ask(c.prometheus+"/api/v1/query_range?"+url.Values{
			"query": {expr}, "step": {"5"},
			"start": {strconv.FormatInt(end.Add(-15*time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)},
		}.Encode(), &result)
		if err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
		if len(result.Data.Result) == 0 && !mayBeEmpty(q) {
			return fmt.Errorf("%s: an empty result", q)
		}
		return nil
	case "jaeger":
		var result struct{ Data []jaegerTrace }
		search := url.Values{"service": {q.Service}, "limit": {strconv.Itoa(q.Limit)}, "lookback": {"15m"}}
		if q.Operation != "" {
			search.Set("operation", q.Operation)
		}
		err := ask(c.jaeger+"/api/traces?"+search.Encode(), &result)
		if err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
		if len(result.Data) == 0 {
			return fmt.Errorf("%s: no traces", q)
		}
		return nil
	}
	return fmt.Errorf("%s: no datasource has the uid %q", q, q.Datasource)
}

// checkAll checks every query.
func (c telemetry) checkAll(queries []panelQuery) (problems []error) {
	var names struct{ Data []string }
	if err := ask(c.prometheus+"/api/v1/label/__name__/values", &names); err != nil {
		return []error{err}
	}
	known := map[string]bool{}
	for _, name := range names.Data {
		known[name] = true
	}
	for _, q := range queries {
		if err := c.check(q, known); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// ask reads a JSON document.
func ask(address string, into any) error {
	client := http.Client{Timeout: time.Minute}
	response, err := client.Get(address)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return json.Unmarshal(body, into)
}

// TestDashboards runs every panel's query against the cluster, after it has
// made pods and a service that the panels can show.
func TestDashboards(t *testing.T) {
	c := setup(t)
	where := telemetry{os.Getenv(prometheusVariable), os.Getenv(jaegerVariable)}
	if where.prometheus == "" || where.jaeger == "" {
		t.Fatalf("%s and %s are not set: run `make e2e`", prometheusVariable, jaegerVariable)
	}
	c.kubectl("create", "deployment", "web", "--image=nginx:1.9.1", "--replicas=2")
	c.kubectl("expose", "deployment", "web", "--port=80")
	c.kubectl("rollout", "status", "deploy/web", "--timeout=180s")
	queries := readDashboards(t)
	var problems []error
	deadline := time.Now().Add(3 * time.Minute) // a rate needs two scrapes, which are 15 s apart
	for problems = where.checkAll(queries); len(problems) > 0 && time.Now().Before(deadline); problems = where.checkAll(queries) {
		time.Sleep(2 * time.Second)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// TestDashboardsNameWhatTheCodeRegisters needs no cluster: each metric is
// looked for in the source, and each datasource among those provisioned.
func TestDashboardsNameWhatTheCodeRegisters(t *testing.T) {
	literals := registered(t)
	provisioned := readAll(t, filepath.Join(grafanaFolder, "provisioning"))
	for _, q := range readDashboards(t) {
		if !strings.Contains(string(provisioned), "uid: "+q.Datasource) {
			t.Errorf("%s: datasource %q is not provisioned", q, q.Datasource)
		}
		for _, name := range metricsOf(q.Expr) {
			if !exported(name, literals) {
				t.Errorf("%s: no code registers %s", q, name)
			}
		}
	}
}

// exported says whether a metric comes from a literal, or from Prometheus' own collectors.
func exported(name string, literals map[string]bool) bool {
	if name == "up" || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "go_") {
		return true
	}
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && literals[base] {
			return true
		}
	}
	return false
}

var (
	literal = regexp.MustCompile(`"([a-z][a-z0-9_]+)"`)
	stored  = regexp.MustCompile(`name\("([a-z0-9_]+)"\)`) // the store gives its metrics a prefix
)

// registered returns the names that may be metrics in the code of the roles.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, module := range []string{"gateway", "kit", "nodeagent", "services"} {
		err := filepath.WalkDir(filepath.Join("..", "..", module), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range literal.FindAllSubmatch(source, -1) {
				names[string(m[1])] = true
			}
			for _, m := range stored.FindAllSubmatch(source, -1) {
				names["howdah_store_"+string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// readAll joins the files of a folder.
func readAll(t *testing.T, folder string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestMetricsOf(t *testing.T) {
	for expr, want := range map[string]string{
		"sum by (job) (up)": "up",
		"histogram_quantile(0.99, sum by (le, job) (rate(a_bucket{code!=\"OK\"}[$__rate_interval])))": "a_bucket",
		"sum(rate(a_sum[1m])) / sum(rate(a_count[1m]))":                                               "a_count a_sum",
		"max without (instance) (x:y) > 3":                                                            "x:y",
	} {
		if got := strings.Join(metricsOf(expr), " "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// TestDashboardChecks runs the checks against servers that answer as
// Prometheus and Jaeger do.
func TestDashboardChecks(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/label/__name__/values", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"success","data":["up","there_total","silent_total"]}`)
	})
	mux.HandleFunc("/api/v1/query_range", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("start") == "" || q.Get("end") == "" || q.Get("step") == "" || strings.Contains(q.Get("query"), "$") || strings.Contains(q.Get("query"), "((") {
			http.Error(w, `{"status":"error","errorType":"bad_data","error":"parse error"}`, http.StatusBadRequest)
			return
		}
		result := `[{"metric":{},"values":[[1,"1"]]}]`
		if strings.Contains(q.Get("query"), "silent") {
			result = `[]`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":%s}}`, result)
	})
	mux.HandleFunc("/api/traces", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("service") == "gateway" && q.Get("limit") == "20" && (!q.Has("operation") || q.Get("operation") == "GET /") {
			fmt.Fprint(w, `{"data":[{"traceID":"1"}]}`)
			return
		}
		fmt.Fprint(w, `{"data":[]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	where := telemetry{server.URL, server.URL}
	for _, tt := range []struct {
		query panelQuery
		want  string // part of the problem; empty for none
	}{
		{panelQuery{Datasource: "prometheus", Expr: "sum(rate(there_total[$__rate_interval]))"}, ""},
		{panelQuery{Datasource: "prometheus", Expr: "rate(misspelt_total[1m])"}, "knows no metric misspelt_total"},
		{panelQuery{Datasource: "prometheus", Expr: "rate(silent_total[1m])"}, "an empty result"},
		{panelQuery{Datasource: "prometheus", Expr: `silent_total{code!="OK"}`}, ""},
		{panelQuery{Datasource: "prometheus", Expr: "sum((up"}, "parse error"},
		{panelQuery{Datasource: "prometheus", Expr: "up{a=\"$node\"}"}, "a variable"},
		{panelQuery{Datasource: "jaeger", Service: "gateway", Limit: 20}, ""},
		{panelQuery{Datasource: "jaeger", Service: "gateway", Operation: "GET /", Limit: 20}, ""},
		{panelQuery{Datasource: "jaeger", Service: "gateway", Operation: "GTE /", Limit: 20}, "no traces"},
		{panelQuery{Datasource: "jaeger", Service: "gatway", Limit: 20}, "no traces"},
		{panelQuery{Datasource: "loki"}, "no datasource"},
	} {
		problems := where.checkAll([]panelQuery{tt.query})
		switch {
		case tt.want == "" && len(problems) > 0:
			t.Errorf("%s: %v", tt.query, problems)
		case tt.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Error(), tt.want)):
			t.Errorf("%s: got %v, want %q", tt.query, problems, tt.want)
		}
	}
}
