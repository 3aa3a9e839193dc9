package iscsi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/kit/wholefile"
)

// recordFile is beside the place where the node has a disk mounted.
const recordFile = "iscsi.json"

// Record is what the node has of a disk, or is about to have: it is written before anything is done. It says nothing of secrets.
type Record struct {
	Disk
	// Mine are the portals by way of which the node has logged in, or has begun to. Other sessions are an administrator's.
	Mine []string `json:"loggedIn,omitempty"`
	// ReadOnly says that it is mounted to be read.
	ReadOnly bool   `json:"readOnly,omitempty"`
	Users    []User `json:"users,omitempty"`
	// Names are what the status of the Node calls it: as many as there are spellings of its portal in volumes.
	Names []corev1.UniqueVolumeName `json:"names,omitempty"`
}

// Call adds a name for who is about to use the disk, unless it is there.
func (r *Record) Call(name corev1.UniqueVolumeName) {
	if len(r.Users) > 0 {
		r.Names = r.Called()
	}
	if !slices.Contains(r.Names, name) {
		r.Names = append(r.Names, name)
	}
}

// Called are the names. An agent that noted none, of an older release, may have had the disk by any that leads to it.
func (r *Record) Called() []corev1.UniqueVolumeName {
	if len(r.Names) > 0 {
		return r.Names
	}
	var names []corev1.UniqueVolumeName
	for _, portal := range spellings(r.Portals[0]) {
		names = append(names, object.ISCSIName(portal, r.IQN, r.LUN))
	}
	return names
}

// User is a volume of a pod that is the disk.
type User struct {
	Pod types.UID `json:"pod"`
	// Name is that of the volume, or of the persistent volume.
	Name     string `json:"name"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Of reports whether the pod has the disk.
func (r *Record) Of(pod types.UID) bool {
	return slices.ContainsFunc(r.Users, func(u User) bool { return u.Pod == pod })
}

// Use adds a user, or replaces what was said of it.
func (r *Record) Use(u User) {
	r.Drop(u.Pod, u.Name)
	r.Users = append(r.Users, u)
}

// Drop removes a user.
func (r *Record) Drop(pod types.UID, name string) {
	r.Users = slices.DeleteFunc(r.Users, func(u User) bool { return u.Pod == pod && u.Name == name })
}

// Begin notes that the node logs in by way of a portal.
func (r *Record) Begin(portal string) {
	if !slices.Contains(r.Mine, portal) {
		r.Mine = append(r.Mine, portal)
	}
}

// Clash says why the node cannot have a disk in this way while it has it in another: the kernel takes what it gets in two ways for two disks, and two
// file systems on one disk destroy each other.
func (r *Record) Clash(others []Record, readOnly bool) error {
	for i := range others {
		o := &others[i]
		if o.IQN != r.IQN || o.LUN != r.LUN || o.same(r) {
			continue
		}
		reads := readOnly && len(o.Users) > 0 && !slices.ContainsFunc(o.Users, func(u User) bool { return !u.ReadOnly })
		if !reads {
			return fmt.Errorf("logical unit %d of %s is in use on this node by way of the interface %s and the portal %s", r.LUN, r.IQN, o.Interface, o.Portals[0])
		}
	}
	// Nor can one interface have two names.
	for i := range others {
		if o := &others[i]; o.Interface == r.Interface && (o.Initiator != r.Initiator || o.Base != r.Base) {
			return fmt.Errorf("the interface %s is in use on this node with another initiatorName", r.Interface)
		}
	}
	return nil
}

func (r *Record) same(o *Record) bool { return r.Interface == o.Interface && r.Key() == o.Key() }

// Inherit notes which sessions the node has that it made for other disks of the target, and reports whether there are any that were not noted.
func (r *Record) Inherit(others ...Record) bool {
	had := len(r.Mine)
	for i := range others {
		if o := &others[i]; o.IQN == r.IQN && o.Interface == r.Interface {
			for _, portal := range o.Mine {
				if slices.Contains(r.Portals, portal) {
					r.Begin(portal)
				}
			}
		}
	}
	return len(r.Mine) > had
}

// Leaves is what the node gives up with a disk, where it has the others besides.
func (r *Record) Leaves(all []Record) Leave {
	l := Leave{Mine: r.Mine, Out: slices.Clone(r.Mine), Interface: r.Initiator != ""}
	for i := range all {
		o := &all[i]
		if o.Interface != r.Interface || o.same(r) {
			continue
		}
		l.Interface = false
		if o.IQN == r.IQN {
			l.Out = slices.DeleteFunc(l.Out, func(portal string) bool { return slices.Contains(o.Portals, portal) })
		}
	}
	return l
}

// Records are what is known of the disks of the node, in a folder of files.
type Records struct{ Dir string }

func (s Records) dir(d *Disk) string {
	return filepath.Join(s.Dir, "iface-"+d.Interface, d.Key())
}

// Mount is where the node has the disk mounted.
func (s Records) Mount(d *Disk) string { return filepath.Join(s.dir(d), "globalmount") }

// All are those that can be read. The error is of those that cannot: of them nobody knows what they use.
func (s Records) All() ([]Record, error) {
	files, _ := filepath.Glob(filepath.Join(s.Dir, "iface-*", "*", recordFile)) // the pattern is well formed
	var all []Record
	var problems []error
	for _, file := range files {
		r, err := readRecord(file)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it goes just now
		case err != nil:
			problems = append(problems, err)
		default:
			all = append(all, r)
		}
	}
	return all, errors.Join(problems...)
}

func readRecord(file string) (Record, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("read %s: %w", file, err)
	}
	if len(r.Portals) == 0 || r.IQN == "" || r.Interface == "" {
		return Record{}, fmt.Errorf("%s names no disk", file)
	}
	return r, nil
}

// Read returns what is known of a disk, which is the disk alone where nothing is.
func (s Records) Read(d *Disk) (Record, error) {
	r, err := readRecord(filepath.Join(s.dir(d), recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{Disk: *d}, nil
	}
	return r, err
}

// Write says what is known of a disk; a crash leaves the old text or the new one.
func (s Records) Write(r *Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir(&r.Disk), 0o750); err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(s.dir(&r.Disk), recordFile), data, 0o600)
}

// Remove removes what is known of a disk, and its folders, which are empty. What is known goes last.
func (s Records) Remove(d *Disk) error {
	dir := s.dir(d)
	for _, path := range []string{s.Mount(d), filepath.Join(dir, recordFile)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	_ = os.Remove(dir)
	_ = os.Remove(filepath.Dir(dir)) // unless other disks have it
	return nil
}
