package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/statefile"
)

// patience is how long after an attempt whose end is not known its image may still come.
const patience = 10 * time.Minute

// Config of Records; Dir and Clock are required.
type Config struct {
	// Dir is the folder of the records: pulling has an intent a file, pulled a record.
	Dir        string
	Rules      Rules
	Clock      clock.PassiveClock
	Registerer prometheus.Registerer
}

// Records are the pulls of a node. Each is a file of its own, named by a hash of its image; all of them are in memory too.
type Records struct {
	cfg     Config
	metrics *metrics

	mu      sync.Mutex
	written int64 // how many records were written so far
	pulled  map[string]record
	pulling map[string]*intent
}

// New returns Records that know nothing until Load.
func New(cfg Config) *Records {
	return &Records{cfg: cfg, metrics: newMetrics(cfg.Registerer), pulled: map[string]record{}, pulling: map[string]*intent{}}
}

// Image is one that is on the node.
type Image struct {
	ID    string
	Names []string // tags and digests
}

func file(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "sha256-" + hex.EncodeToString(sum[:])
}

func (r *Records) path(folder, name string) string { return filepath.Join(r.cfg.Dir, folder, name) }

// Load reads what an earlier agent knew. A pull that it began and did not see end is a lost one.
func (r *Records) Load() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var problems []error
	names, err := r.list("pulled")
	problems = append(problems, err)
	for _, name := range names {
		var rec record
		// Of a record that cannot be read its file's name tells the image. It stays, and its image is to be proven.
		if err := statefile.Read(r.path("pulled", name), &rec); err != nil || file(rec.Image) != name {
			slog.Error("record of an image's pull cannot be read: pods have to prove that they may use it", "file", r.path("pulled", name), "err", err)
			rec = record{}
		}
		r.pulled[name] = rec
	}
	names, err = r.list("pulling")
	problems = append(problems, err)
	for _, name := range names {
		i := &intent{lost: true}
		if err := statefile.Read(r.path("pulling", name), i); err != nil || file(i.Image) != name {
			slog.Error("record of an image's beginning pull cannot be read", "file", r.path("pulling", name), "err", err)
			i.Image, i.Was = "", ""
		}
		i.Since = r.cfg.Clock.Now()
		r.pulling[name] = i
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("records of image pulls: %w", err)
	}
	r.count()
	return nil
}

// list returns the files of a folder, without those that were not finished.
func (r *Records) list(folder string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.cfg.Dir, folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "sha256-") {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// Begin writes down that an image is about to be pulled; was is its ID on the node, empty where it is not there. Came, Failed or Lost ends it.
func (r *Records) Begin(name, was string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := file(name)
	i := r.pulling[key]
	if i == nil {
		i = &intent{Image: name, Was: was, Since: r.cfg.Clock.Now()}
		if err := statefile.Write(r.path("pulling", key), i); err != nil {
			return fmt.Errorf("failed to record image pull intent for container image %q: %w", name, err)
		}
		r.pulling[key] = i
		r.count()
	}
	i.flights++
	return nil
}

// Came says that a pull has brought an image, with these credentials. Where that cannot be written the beginning stays, which says that the image was pulled.
func (r *Records) Came(name, id string, s Source) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.grant(name, id, s); err != nil {
		slog.Error("record an image's pull", "image", name, "err", err)
		r.end(name, true)
		return
	}
	r.end(name, false)
}

// Failed says that a pull has brought nothing.
func (r *Records) Failed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(name, false)
}

// Lost says that nobody knows how a pull ends: its image may still come.
func (r *Records) Lost(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(name, true)
}

// Preloaded says that an image of this name was put on the node by its administrator: it is not what a lost pull may have brought.
func (r *Records) Preloaded(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := r.pulling[file(name)]; i != nil && i.flights == 0 {
		r.drop(file(name))
	}
}

// end ends one pull. The caller holds mu.
func (r *Records) end(name string, lost bool) {
	key := file(name)
	i := r.pulling[key]
	if i == nil {
		return
	}
	i.flights--
	if lost {
		i.lost, i.Since = true, r.cfg.Clock.Now()
	}
	if i.flights <= 0 && !i.lost {
		r.drop(key)
	}
}

// drop forgets a beginning. The caller holds mu.
func (r *Records) drop(key string) {
	if err := os.Remove(r.path("pulling", key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Error("remove the record of an image's beginning pull", "err", err)
		r.pulling[key].lost = true // the next look tries again
		return
	}
	delete(r.pulling, key)
	r.count()
}

// grant writes a source into an image's record. The caller holds mu.
func (r *Records) grant(name, id string, s Source) error {
	key := file(id)
	old, known := r.pulled[key]
	next, changed := old.grant(repository(name), s)
	if known && !changed {
		return nil
	}
	return r.write(key, id, next)
}

// write replaces a record. The caller holds mu.
func (r *Records) write(key, id string, next record) error {
	r.written++
	next.Image, next.Updated, next.number = id, r.cfg.Clock.Now(), r.written
	if err := statefile.Write(r.path("pulled", key), next); err != nil {
		return err
	}
	r.pulled[key] = next
	r.count()
	return nil
}

// Ask is a pod's question for an image that is on the node.
type Ask struct {
	Written string // as the pod names it
	Name    string // in full
	ID      string // the runtime's
	// Sources are the pod's own, looked up only if they matter.
	Sources func() ([]Source, error)
}

// May reports whether the pod may use the image without proving it to the registry. The error is that of Sources.
func (r *Records) May(ask Ask) (bool, error) {
	ok, why, err := r.may(ask)
	r.metrics.checked(why)
	return ok, err
}

// Would is May of a pod that does not start a container yet: it counts and learns nothing.
func (r *Records) Would(ask Ask) bool {
	rec, pulled := r.look(ask)
	if !r.cfg.Rules.Asks(ask.Written, pulled) {
		return true
	}
	all, known := rec.everybody(repository(ask.Name))
	if all || !known {
		return all
	}
	sources, err := ask.Sources()
	_, _, ok := rec.proof(repository(ask.Name), sources)
	return err == nil && ok
}

func (r *Records) may(ask Ask) (bool, result, error) {
	rec, pulled := r.look(ask)
	if !r.cfg.Rules.Asks(ask.Written, pulled) {
		return true, policyAllowed, nil
	}
	switch all, known := rec.everybody(repository(ask.Name)); {
	case all:
		return true, recordFound, nil
	case !known:
		return false, mustAuthenticate, nil
	}
	sources, err := ask.Sources()
	if err != nil {
		return false, failed, err
	}
	s, learn, ok := rec.proof(repository(ask.Name), sources)
	if !ok {
		return false, mustAuthenticate, nil
	}
	if learn {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, still := r.pulled[file(ask.ID)]; still { // else the image is being removed
			if err := r.grant(ask.Name, ask.ID, s); err != nil {
				slog.Error("record credentials of an image", "image", ask.Name, "err", err)
			}
		}
	}
	return true, recordFound, nil
}

// look returns an image's record, empty where there is none, and whether the agent has pulled it, or may have.
func (r *Records) look(ask Ask) (record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, pulled := r.pulled[file(ask.ID)]
	if i := r.pulling[file(ask.Name)]; i != nil && i.hides(ask.ID) {
		pulled = true
	}
	return rec, pulled
}

// Mark is to be taken before images are listed for Sweep.
func (r *Records) Mark() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
}

// Sweep removes the records of images that are gone, and finds out what became of pulls that nobody saw end. The images are those that the runtime had after
// the mark: a record that was written since may be of an image that has come since.
func (r *Records) Sweep(images []Image, mark int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	here := map[string]bool{}
	for _, i := range images {
		here[file(i.ID)] = true
	}
	for key, rec := range r.pulled {
		if here[key] || rec.number > mark {
			continue
		}
		if err := os.Remove(r.path("pulled", key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			slog.Error("remove the record of an image's pull", "image", rec.Image, "err", err)
			continue
		}
		delete(r.pulled, key)
	}
	r.settle(images)
	r.count()
}

// settle turns lost pulls whose image has come into records of ones with unknown credentials, and forgets those whose image did not come. The caller holds mu.
func (r *Records) settle(images []Image) {
	byName := map[string]string{}
	for _, i := range images {
		for _, name := range i.Names {
			byName[file(name)] = i.ID
		}
	}
	for key, i := range r.pulling {
		if i.flights > 0 || !i.lost {
			continue
		}
		id, came := byName[key]
		if !came && i.Image != "" {
			id, came = byName[file(untagged(i.Image))]
		}
		switch {
		case came && i.hides(id):
			if _, known := r.pulled[file(id)]; !known {
				if err := r.write(file(id), id, record{}); err != nil {
					slog.Error("record an image's pull", "image", i.Image, "err", err)
					continue
				}
			}
			r.drop(key)
		case came || r.cfg.Clock.Since(i.Since) > patience:
			r.drop(key)
		}
	}
}

// count tells the metrics. The caller holds mu.
func (r *Records) count() { r.metrics.stored(len(r.pulling), len(r.pulled)) }
