package lb

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"howdah.dev/nodeagent/bpf"
)

// Each file in testdata holds services, slices and pods as YAML documents, and in "want" the dump of the table that
// node1 in zone "a" makes of them. The table also has to come back unchanged from the maps.
func TestDesired(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			var services []*corev1.Service
			var slices []*discoveryv1.EndpointSlice
			var pods []*corev1.Pod
			for _, f := range archive.Files {
				if f.Name == "want" {
					want = string(f.Data)
					continue
				}
				for _, doc := range strings.Split(string(f.Data), "---\n") {
					switch o := decode(t, doc).(type) {
					case *corev1.Service:
						services = append(services, o)
					case *discoveryv1.EndpointSlice:
						slices = append(slices, o)
					case *corev1.Pod:
						pods = append(pods, o)
					}
				}
			}
			table, problems := Desired(services, slices, Node{Name: testNode, Zone: "a"})
			for _, p := range pods {
				t, more := hostPortTable(p)
				problems = append(problems, more...)
				for f, e := range t {
					table[f] = e
				}
			}
			got := table.String()
			for _, p := range problems {
				got += "problem: " + p + "\n"
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("table (-want +got):\n%s", d)
			}
			throughMaps(t, table)
		})
	}
}

func decode(t *testing.T, doc string) any {
	t.Helper()
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
		t.Fatal(err)
	}
	var obj any
	switch kind.Kind {
	case "Service":
		obj = &corev1.Service{}
	case "EndpointSlice":
		obj = &discoveryv1.EndpointSlice{}
	case "Pod":
		obj = &corev1.Pod{}
	default:
		t.Fatalf("kind %q in %q", kind.Kind, doc)
	}
	if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
		t.Fatalf("%v in %q", err, doc)
	}
	return obj
}

// throughMaps writes a table and reads it back.
func throughMaps(t *testing.T, table Table) {
	t.Helper()
	m := memoryMaps()
	st, err := readState(m)
	if err != nil {
		t.Fatal(err)
	}
	w := wanted{sources: map[bpf.LBSourceKey]bool{}}
	for f, e := range table {
		if decodeFrontend(encodeFrontend(f)) != f {
			t.Errorf("%s comes back as %s", f, decodeFrontend(encodeFrontend(f)))
		}
		w.changes = append(w.changes, change{frontend: encodeFrontend(f), entry: &e})
		for _, p := range e.Sources {
			w.sources[encodeSource(identity(e.Service), p)] = true
		}
	}
	if err := apply(m, st, makePlan(st, w)); err != nil {
		t.Fatal(err)
	}
	if err := holds(m, table); err != nil {
		t.Error(err)
	}
	if p := makePlan(st, w); !p.empty() {
		t.Errorf("a second plan is not empty: %+v", p)
	}
}
