package api

import (
	"fmt"
	"hash/fnv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/object"
)

// ID names an object of any kind.
type ID struct {
	GVK             schema.GroupVersionKind
	Namespace, Name string // no namespace: of the whole cluster
}

// String is the ID as a key of queues.
func (id ID) String() string {
	return object.Key(id.Namespace, id.Name) + "|" + id.GVK.Kind + "." + id.GVK.Version + "." + id.GVK.Group
}

// ParseID reads what String has written.
func ParseID(key string) (ID, error) {
	i := strings.LastIndexByte(key, '|')
	if i < 0 {
		return ID{}, fmt.Errorf("%q names no object", key)
	}
	kind := strings.SplitN(key[i+1:], ".", 3)
	if len(kind) != 3 {
		return ID{}, fmt.Errorf("%q names no kind", key)
	}
	id := ID{GVK: schema.GroupVersionKind{Group: kind[2], Version: kind[1], Kind: kind[0]}}
	if namespace, name, ok := strings.Cut(key[:i], "/"); ok {
		id.Namespace, id.Name = namespace, name
	} else {
		id.Name = namespace
	}
	return id, nil
}

// Reference is the ID without its namespace.
func (id ID) Reference() ObjectReference {
	apiVersion, kind := id.GVK.ToAPIVersionAndKind()
	return ObjectReference{APIVersion: apiVersion, Kind: kind, Name: id.Name}
}

// maxName is how long the readable part of a placement's name is at most.
const maxName = 200

// PlacementName is the name of the object's placement: what it is called, made a valid name, with a digest of what that leaves out.
func (id ID) PlacementName() string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.String()))
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(id.Name+"-"+id.GVK.Kind))
	readable = strings.Trim(readable[:min(len(readable), maxName)], "-")
	return fmt.Sprintf("%s-%08x", readable, h.Sum32())
}

// Of returns the ID of a reference in a namespace.
func (r ObjectReference) Of(namespace string) ID {
	return ID{GVK: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), Namespace: namespace, Name: r.Name}
}

// ID is that of the placement's object.
func (p *Placement) ID() ID { return p.Spec.Object.Of(p.Namespace) }
