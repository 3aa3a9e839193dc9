// Package written remembers what a controller has written that its cache is yet to show.
package written

import (
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Patience bounds the wait for a cache. What was written may never show, as when a database was restored to what it was before.
const Patience = 5 * time.Minute

// Versions are those of objects that a controller's last writes made. They are safe for concurrent use.
type Versions struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	objects map[types.UID]write
}

// write is the version that a write made, and when.
type write struct {
	version uint64
	at      time.Time
}

// New returns the versions of a controller that has written nothing.
func New(clock clock.PassiveClock) *Versions {
	return &Versions{clock: clock, objects: map[types.UID]write{}}
}

// Wrote notes an object as a write has left it.
func (v *Versions) Wrote(o metav1.Object) { v.Note(o.GetUID(), Version(o)) }

// Note notes the newest version of what was written for an object.
func (v *Versions) Note(uid types.UID, version uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.objects[uid] = write{version, v.clock.Now()}
}

// Behind says whether a cached object is older than what was written of it. What was planned from it would be done again, or refused. The event of the newer
// one calls again.
func (v *Versions) Behind(o metav1.Object) bool {
	return v.awaits(o.GetUID(), func(version uint64) bool { return Version(o) >= version })
}

// Hidden says whether a cache is yet to come as far as what was written for an object, which may have gone again. shows says how far it has come; who asks
// before reading the cache reads nothing older.
func (v *Versions) Hidden(uid types.UID, shows func(version uint64) bool) bool {
	return v.awaits(uid, shows)
}

func (v *Versions) awaits(uid types.UID, shows func(version uint64) bool) bool {
	v.mu.Lock()
	last, ok := v.objects[uid]
	v.mu.Unlock()
	return ok && !shows(last.version) && v.clock.Since(last.at) < Patience
}

// Forget drops what is known of an object that is gone.
func (v *Versions) Forget(uid types.UID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.objects, uid)
}

// Version is the number that an object's resourceVersion is; 0 where it is none.
func Version(o metav1.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Newest is the highest version of objects, 0 of none.
func Newest[T metav1.Object](objects []T) (newest uint64) {
	for _, o := range objects {
		newest = max(newest, Version(o))
	}
	return newest
}
