package csi

import (
	"crypto/sha256"
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
)

// dataFile says whose a folder is.
const dataFile = "vol_data.json"

// pluginName and folderName are what Kubernetes calls CSI in names and in folders.
const (
	pluginName = "kubernetes.io/csi"
	folderName = "kubernetes.io~csi"
)

// Data is what a vol_data.json says. The first fields are those that Kubernetes' has.
type Data struct {
	Driver     string `json:"driverName"`
	Handle     string `json:"volumeHandle"`
	Name       string `json:"specVolID,omitempty"`
	Node       string `json:"nodeName,omitempty"`
	Attachment string `json:"attachmentID,omitempty"`
	Lifecycle  string `json:"volumeLifecycleMode,omitempty"`
	// Called says that the driver may have something of it; Done that all is made.
	Called bool `json:"howdahCalled,omitempty"`
	Done   bool `json:"howdahDone,omitempty"`
}

// unique is what tells a volume from all others.
func (d Data) unique() corev1.UniqueVolumeName { return object.AttachableName(d.Driver, d.Handle) }

// read returns what is said of a folder.
func read(dir string) (Data, error) {
	raw, err := os.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		return Data{}, err
	}
	var d Data
	if err := json.Unmarshal(raw, &d); err != nil {
		return Data{}, fmt.Errorf("read %s: %w", filepath.Join(dir, dataFile), err)
	}
	if d.Driver == "" || d.Handle == "" {
		return Data{}, fmt.Errorf("%s names no volume", filepath.Join(dir, dataFile))
	}
	return d, nil
}

// write says it; a crash leaves the old text or the new one.
func (d Data) write(dir string) error {
	raw, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(filepath.Join(dir, dataFile)); err == nil && string(old) == string(raw) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, dataFile+".")
	if err != nil {
		return err
	}
	_, err = file.Write(raw)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), filepath.Join(dir, dataFile))
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// paths are the folders below the kubelet's.
type paths struct{ root string }

// staged is the folder of a volume on the node.
func (p paths) staged(driver, handle string) string {
	return filepath.Join(p.root, "plugins", pluginName, driver, fmt.Sprintf("%x", sha256.Sum256([]byte(handle))))
}

// published is the folder of a volume of a pod.
func (p paths) published(uid types.UID, name string) string {
	return filepath.Join(p.root, "pods", string(uid), "volumes", folderName, name)
}

// allStaged are the folders of volumes that the node has, or is about to.
func (p paths) allStaged() []string { return p.glob("plugins", pluginName, "*", "*", dataFile) }

// allPublished are the folders of volumes that pods have, or are about to.
func (p paths) allPublished() []string {
	return p.glob("pods", "*", "volumes", folderName, "*", dataFile)
}

func (p paths) glob(parts ...string) []string {
	found, _ := filepath.Glob(filepath.Join(append([]string{p.root}, parts...)...)) // the pattern is well formed
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// ownerOf is the pod whose folder a published one is.
func ownerOf(published string) types.UID {
	return types.UID(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(published)))))
}

// users are the pods that have a volume, or are about to.
func (p paths) users(name corev1.UniqueVolumeName) []types.UID {
	var uids []types.UID
	for _, dir := range p.allPublished() {
		if d, err := read(dir); err == nil && d.unique() == name {
			uids = append(uids, ownerOf(dir))
		}
	}
	return uids
}

// inUse are the attachable volumes that the node has or is about to have, in order.
func (p paths) inUse() []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	for _, dir := range p.allStaged() {
		if d, err := read(dir); err == nil && d.Attachment != "" {
			names = append(names, d.unique())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// removeEmpty removes folders for as long as they are empty, up to root.
func removeEmpty(dir, root string) {
	for dir != root && len(dir) > len(root) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		dir = filepath.Dir(dir)
	}
}
