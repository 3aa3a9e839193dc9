package verify

import (
	"slices"
	"time"
)

// Kinds of sources.
const (
	KindSecret         = "Secret"
	KindServiceAccount = "ServiceAccount"
)

// Source is whose credentials an image was pulled with. The zero one is all pods': of a pull without any, or with some of the node's.
type Source struct {
	Kind      string `json:",omitempty"`
	Namespace string `json:",omitempty"`
	Name      string `json:",omitempty"`
	UID       string `json:",omitempty"`
	// Hash is that of a Secret's login. Another Secret with the same login proves as much, and so does this one with another.
	Hash string `json:",omitempty"`
}

// same reports whether both are one object, whatever it holds.
func (s Source) same(other Source) bool {
	s.Hash, other.Hash = "", ""
	return s == other
}

// proves reports whether who has this source may use what was pulled with the other.
func (s Source) proves(other Source) bool {
	return s.same(other) || s.Kind == KindSecret && other.Kind == KindSecret && s.Hash != "" && s.Hash == other.Hash
}

// Bounds of a record. What falls out of it has to be proven again.
const (
	mostRepositories = 100
	mostSources      = 200
	// mostLearned bounds what is written because of a pod that needed no pull.
	mostLearned = 100
)

// record is what is known of the pulls of an image.
type record struct {
	Image   string // the runtime's ID of it
	Updated time.Time
	Access  []access `json:",omitempty"` // the one that changed last is the last; without any, everybody has to prove that he may use it

	number int64 // of its writing
}

// access says who may use an image by a name.
type access struct {
	Repository string
	Everybody  bool     `json:",omitempty"`
	Sources    []Source `json:",omitempty"` // the one that came last is the last
}

func (r record) find(repository string) int {
	return slices.IndexFunc(r.Access, func(a access) bool { return a.Repository == repository })
}

// grant returns the record with one more source of an image of this name, and whether it is another one. The record itself stays as it was.
func (r record) grant(repository string, s Source) (record, bool) {
	next := access{Repository: repository}
	all := slices.Clone(r.Access)
	if i := r.find(repository); i >= 0 {
		if all[i].Everybody || slices.Contains(all[i].Sources, s) {
			return r, false
		}
		next = all[i]
		all = slices.Delete(all, i, i+1)
	}
	if s == (Source{}) {
		next.Everybody, next.Sources = true, nil
	} else {
		next.Sources = slices.DeleteFunc(slices.Clone(next.Sources), s.same)
		next.Sources = last(append(next.Sources, s), mostSources)
	}
	r.Access = last(append(all, next), mostRepositories)
	return r, true
}

// last returns at most n elements from the end.
func last[T any](s []T, n int) []T { return s[max(0, len(s)-n):] }

// proof looks for one of a pod's sources that lets it use the image by this name. learn says that the source is worth a place in the record.
func (r record) proof(repository string, pod []Source) (found Source, learn, ok bool) {
	i := r.find(repository)
	if i < 0 {
		return Source{}, false, false
	}
	known := r.Access[i].Sources
	for _, s := range pod {
		if s.Kind == "" || !slices.ContainsFunc(known, s.proves) {
			continue
		}
		return s, !slices.Contains(known, s) && len(known) < mostLearned, true
	}
	return Source{}, false, false
}

// everybody reports whether all pods may use the image by this name, and whether somebody has pulled it by this name at all.
func (r record) everybody(repository string) (all, known bool) {
	i := r.find(repository)
	return i >= 0 && r.Access[i].Everybody, i >= 0
}

// intent is a pull that has begun.
type intent struct {
	Image string // its full name
	Was   string `json:",omitempty"` // its ID on the node before; empty where it was not there
	Since time.Time

	flights int
	lost    bool // how a pull has ended is not known
}

// hides reports whether the image that is there by the intent's name may be what is being pulled, or was. One that was there before is not.
func (i intent) hides(id string) bool { return i.Was != id }
