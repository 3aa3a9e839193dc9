package verify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"
)

const image, id = "a.test/b:1", "sha256:b"

func secret(uid, hash string) Source {
	return Source{Kind: KindSecret, Namespace: "n", Name: "s", UID: uid, Hash: hash}
}

// node is a folder of records whose agent can be started anew.
type node struct {
	t     *testing.T
	clock *clocktesting.FakeClock
	dir   string
	*Records
}

func newNode(t *testing.T) *node {
	n := &node{t: t, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), dir: t.TempDir()}
	n.start()
	return n
}

func (n *node) start() {
	n.t.Helper()
	n.Records = New(Config{Dir: n.dir, Clock: n.clock, Registerer: prometheus.NewRegistry()})
	if err := n.Load(); err != nil {
		n.t.Fatal(err)
	}
}

// may asks for a pod with these sources.
func (n *node) may(sources ...Source) bool {
	n.t.Helper()
	ask := Ask{Written: image, Name: image, ID: id, Sources: func() ([]Source, error) { return sources, nil }}
	would := n.Would(ask)
	may, err := n.May(ask)
	if err != nil || would != may {
		n.t.Errorf("may %v, would %v: %v", may, would, err)
	}
	return may
}

func (n *node) begin(was string) {
	n.t.Helper()
	if err := n.Begin(image, was); err != nil {
		n.t.Fatal(err)
	}
}

// files counts those of a folder.
func (n *node) files(folder string) int {
	names, _ := filepath.Glob(filepath.Join(n.dir, folder, "*"))
	return len(names)
}

func (n *node) want(what string, got, want any) {
	n.t.Helper()
	if got != want {
		n.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

var present = []Image{{ID: id, Names: []string{image}}}

func TestPulls(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.want("preloaded", n.may(), true)
	n.begin("")
	n.want("while it is pulled", n.may(secret("1", "x")), false)
	n.Came(image, id, secret("1", "x"))
	n.want("beginnings", n.files("pulling"), 0)
	for range 2 {
		n.want("without", n.may(), false)
		n.want("the same", n.may(secret("1", "x")), true)
		n.want("another", n.may(secret("6", "y"), secret("7", "z")), false)
		n.want("another's login", n.may(secret("2", "y"), secret("3", "x")), true)
		n.want("a login without a hash", n.may(secret("4", "")), false)
		n.start()
	}
	n.want("another login in the same", n.may(secret("1", "new")), true)
	n.want("which is then a proof", n.may(secret("5", "new")), true)
	n.want("an account of its name", n.may(Source{Kind: KindServiceAccount, Namespace: "n", Name: "s", UID: "1"}), false)
	n.begin(id)
	n.Came(image, id, Source{Kind: KindServiceAccount, Namespace: "n", Name: "a", UID: "9"})
	n.want("the account", n.may(Source{Kind: KindServiceAccount, Namespace: "n", Name: "a", UID: "9"}), true)
	n.want("its successor", n.may(Source{Kind: KindServiceAccount, Namespace: "n", Name: "a", UID: "8"}), false)
	other := Ask{Written: "c.test/b:1", Name: "c.test/b:1", ID: id, Sources: func() ([]Source, error) { return []Source{secret("1", "x")}, nil }}
	if may, err := n.May(other); may || err != nil {
		t.Errorf("by a name that nobody pulled it by: %v, %v", may, err)
	}
	n.begin(id)
	n.Came(image, id, Source{})
	n.want("everybody", n.may(), true)
	n.begin(id)
	n.Came(image, id, secret("1", "x"))
	n.want("everybody still", n.may(), true)
	n.want("records", n.files("pulled"), 1)
	n.want("metric of records", testutil.ToFloat64(n.metrics.records), 1.0)
	n.want("metric of beginnings", testutil.ToFloat64(n.metrics.intents), 0.0)
	n.Sweep(nil, n.Mark())
	n.want("records of what is gone", n.files("pulled"), 0)
	n.want("preloaded again", n.may(), true)
}

func TestSeveralPullsAtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.begin("")
	n.begin("")
	n.Failed(image)
	n.want("one failed, the other goes on", n.may(secret("1", "x")), false)
	n.Sweep(present, n.Mark())
	n.want("beginnings", n.files("pulling"), 1)
	n.Failed(image)
	n.want("both failed", n.may(), true)
	n.want("beginnings", n.files("pulling"), 0)
}

// What becomes of a pull whose end nobody saw: the agent was killed, or stopped waiting.
func TestLostPulls(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*node){"killed": func(n *node) { n.start() }, "given up": func(n *node) { n.Lost(image) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			n.begin("")
			lose(n)
			n.want("at once", n.may(secret("1", "x")), false)
			n.Sweep(nil, n.Mark())
			n.want("it may still come", n.files("pulling"), 1)
			n.Sweep(present, n.Mark())
			n.want("beginnings", n.files("pulling"), 0)
			n.want("it has come, with whatever credentials", n.may(secret("1", "x")), false)
			n.start()
			n.want("and later", n.may(secret("1", "x")), false)
			n.begin(id)
			n.Came(image, id, secret("1", "x"))
			n.want("pulled again", n.may(secret("1", "x")), true)

			n = newNode(t)
			n.begin(id)
			lose(n)
			n.want("what was there before", n.may(), true)
			n.Sweep(present, n.Mark())
			n.want("and later", n.may(), true)
			n.want("beginnings", n.files("pulling"), 0)

			n = newNode(t)
			n.begin("")
			lose(n)
			n.clock.Step(patience + time.Second)
			n.Sweep(nil, n.Mark())
			n.want("it has not come", n.files("pulling"), 0)

			n = newNode(t)
			n.begin("")
			lose(n)
			n.Preloaded(image)
			n.want("the administrator has brought it instead", n.may(), true)

			n = newNode(t)
			n.begin("")
			lose(n)
			n.begin("")
			n.Failed(image)
			n.want("another pull that failed says nothing of it", n.may(secret("1", "x")), false)
		})
	}
}

// A pull that ends while images are listed keeps its record, though its image is not in the list.
func TestSweepKeepsWhatHasJustCome(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	mark := n.Mark()
	n.begin("")
	n.Came(image, id, secret("1", "x"))
	n.Sweep(nil, mark)
	n.want("the record", n.may(), false)
}

func TestDigestsAreFound(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	const digest = "@sha256:0123456789012345678901234567890123456789012345678901234567890123"
	if err := n.Begin("a.test/b:1"+digest, ""); err != nil {
		t.Fatal(err)
	}
	n.Lost("a.test/b:1" + digest)
	n.Sweep([]Image{{ID: id, Names: []string{"a.test/b" + digest}}}, n.Mark())
	n.want("records", n.files("pulled"), 1)
	n.want("beginnings", n.files("pulling"), 0)
}

// Files that cannot be read let nobody in.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.begin("")
	n.Came(image, id, Source{})
	n.begin("")
	for _, folder := range []string{"pulled", "pulling"} {
		names, _ := filepath.Glob(filepath.Join(n.dir, folder, "*"))
		if len(names) != 1 {
			t.Fatalf("%s: %v", folder, names)
		}
		if err := os.WriteFile(names[0], []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.start()
		n.want(folder, n.may(secret("1", "x")), false)
	}
	n.Sweep(present, n.Mark())
	n.want("beginnings", n.files("pulling"), 0)
	n.want("both", n.may(secret("1", "x")), false)
	n.begin(id)
	n.Came(image, id, secret("1", "x"))
	n.start()
	n.want("pulled again", n.may(secret("1", "x")), true)
	n.Sweep(nil, n.Mark())
	n.want("records", n.files("pulled"), 0)
}

// Where nothing can be written nothing is pulled; where the end cannot be written the beginning says that somebody pulled it.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	if err := os.WriteFile(filepath.Join(n.dir, "pulled"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.begin("")
	n.Came(image, id, secret("1", "x"))
	n.want("it cannot be written", n.may(secret("1", "x")), false)
	n = newNode(t)
	if err := os.WriteFile(filepath.Join(n.dir, "pulling"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Begin(image, ""); err == nil {
		t.Error("a pull begins unrecorded")
	}
}

func TestErrorsOfSources(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.begin("")
	n.Came(image, id, secret("1", "x"))
	broken := errors.New("no API")
	ask := Ask{Written: image, Name: image, ID: id, Sources: func() ([]Source, error) { return nil, broken }}
	if may, err := n.May(ask); may || !errors.Is(err, broken) || n.Would(ask) {
		t.Errorf("may %v: %v", may, err)
	}
	for result, want := range map[result]float64{failed: 1, mustAuthenticate: 0, recordFound: 0, policyAllowed: 0} {
		n.want(string(result), testutil.ToFloat64(n.metrics.checks.WithLabelValues(string(result))), want)
	}
}

// Records stay small, however many secrets and names there are; what falls out has to be proven again.
func TestRecordsAreBounded(t *testing.T) {
	t.Parallel()
	var r record
	for i := range mostSources + 5 {
		r, _ = r.grant("a.test/b", secret(fmt.Sprint(i), fmt.Sprint(i)))
	}
	if got := r.Access[0].Sources; len(got) != mostSources || got[0].UID != "5" {
		t.Errorf("%d sources from %s on", len(got), got[0].UID)
	}
	old := r
	for i := range mostRepositories {
		r, _ = r.grant(fmt.Sprint("c.test/", i), Source{})
	}
	if len(r.Access) != mostRepositories || r.find("a.test/b") >= 0 {
		t.Errorf("%d names", len(r.Access))
	}
	if len(old.Access) != 1 || len(old.Access[0].Sources) != mostSources {
		t.Error("a record is changed in place")
	}
	if _, learn, ok := old.proof("a.test/b", []Source{secret("new", "7")}); learn || !ok {
		t.Errorf("a full record: learns %v, proves %v", learn, ok)
	}
}
