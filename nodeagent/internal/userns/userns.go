// Package userns gives every pod that is to have users of its own (hostUsers: false) a range of the node's user and group IDs. Which pod has
// which is in the pods' folders and nowhere else, so that a range is free again once its pod's folder is gone.
// Source: Kubernetes, Concepts > Pods > User Namespaces.
package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/wholefile"
	"howdah.dev/nodeagent/internal/container"
)

// Length is how many users a pod has, as the smallest range with which every common image works.
const Length = 1 << 16

// file in a pod's folder tells which range it has.
const file = "userns"

// Ranges are the node's. It is safe for concurrent use.
type Ranges struct {
	root string
	pool Pool
	mu   sync.Mutex // of who looks for a range that is free
}

// New returns the ranges of a pool for the pods whose folders are below root.
func New(root string, pool Pool) *Ranges { return &Ranges{root: root, pool: pool} }

// record is a file's content, as a kubelet writes it.
type record struct {
	UIDs []mapping `json:"uidMappings"`
	GIDs []mapping `json:"gidMappings"`
}

type mapping struct {
	container.Users
	Container uint32 `json:"containerId"`
}

// Of returns the range of a pod, which gets one the first time; the zero value for a pod that shares the node's users.
func (r *Ranges) Of(p *corev1.Pod) (container.Users, error) {
	if !container.OwnUsers(p) {
		return container.Users{}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	dir := container.PodDir(r.root, p)
	users, err := read(dir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return users, err
	}
	if users, err = r.free(filepath.Dir(dir)); err != nil {
		return container.Users{}, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return container.Users{}, err
	}
	data, err := json.Marshal(record{UIDs: []mapping{{Users: users}}, GIDs: []mapping{{Users: users}}})
	if err != nil {
		return container.Users{}, err
	}
	return users, wholefile.Write(filepath.Join(dir, file), data, 0o600)
}

// free returns the first range that no pod has which has its folder in dir.
func (r *Ranges) free(dir string) (container.Users, error) {
	pods, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return container.Users{}, err
	}
	taken := map[uint32]bool{}
	for _, e := range pods {
		users, err := read(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return container.Users{}, err // whose range is not known could be given to another
		}
		taken[users.Host] = true
	}
	for i := range r.pool.Ranges {
		if host := r.pool.First + i*Length; !taken[host] {
			return container.Users{Host: host, Length: Length}, nil
		}
	}
	return container.Users{}, fmt.Errorf("no user IDs are left for the pod: all %d ranges of the node are taken", r.pool.Ranges)
}

// read returns the range that a pod's folder tells of.
func read(dir string) (container.Users, error) {
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return container.Users{}, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return container.Users{}, fmt.Errorf("user IDs of a pod in %s: %w", path, err)
	}
	if len(r.UIDs) != 1 || len(r.GIDs) != 1 || r.UIDs[0] != r.GIDs[0] || r.UIDs[0].Container != 0 || !r.UIDs[0].Own() {
		return container.Users{}, fmt.Errorf("user IDs of a pod in %s: %s is not one range from 0 on", path, data)
	}
	return r.UIDs[0].Users, nil
}
