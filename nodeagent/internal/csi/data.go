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
	"howdah.dev/kit/wholefile"
)

// dataFile says whose a folder is.
const dataFile = "vol_data.json"

// pluginName and folderName are what Kubernetes calls CSI in names and in folders.
const (
	pluginName = "kubernetes.io/csi"
	folderName = "kubernetes.io~csi"
	// devicesName is the folder of all that has to do with block devices, and recordName that where the agent keeps what it knows of a pod's: in
	// Kubernetes' own there are nothing but links to devices.
	devicesName = "volumeDevices"
	recordName  = "howdah.dev~csi"
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
	// Size is what a staged volume's file system or device has on this node, "" where nothing is known of that.
	Size string `json:"howdahSize,omitempty"`
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
	return wholefile.Write(filepath.Join(dir, dataFile), raw, 0o600)
}

// paths are the folders below the kubelet's.
type paths struct{ root string }

// place is where a volume is, on the node or with a pod.
type place struct {
	record string // the folder of its vol_data.json
	target string // what the driver is told: a folder, or the file that is a device
	link   string // to a pod's device, "" otherwise
}

func (p paths) plugin(parts ...string) string {
	return filepath.Join(append([]string{p.root, "plugins", pluginName}, parts...)...)
}

// stagedFolder is where the node has a volume that is a file system.
func (p paths) stagedFolder(driver, handle string) place {
	return folderAt(p.plugin(driver, fmt.Sprintf("%x", sha256.Sum256([]byte(handle)))))
}

func folderAt(record string) place {
	return place{record: record, target: filepath.Join(record, "globalmount")}
}

// stagedDevice is where the node has a volume that is a block device.
func (p paths) stagedDevice(name string) place {
	return place{record: p.plugin(devicesName, name, "data"), target: p.plugin(devicesName, "staging", name)}
}

// publishedFolder is where a pod has a volume that is a file system.
func (p paths) publishedFolder(uid types.UID, name string) place {
	record := filepath.Join(p.root, "pods", string(uid), "volumes", folderName, name)
	return place{record: record, target: filepath.Join(record, "mount")}
}

// publishedDevice is where a pod has a volume that is a block device.
func (p paths) publishedDevice(uid types.UID, name string) place {
	devices := filepath.Join(p.root, "pods", string(uid), devicesName)
	return place{
		record: filepath.Join(devices, recordName, name), target: p.plugin(devicesName, "publish", name, string(uid)), link: filepath.Join(devices, folderName, name),
	}
}

// staged is where the node has a volume.
func (p paths) staged(w *Want) place {
	if w.Block() {
		return p.stagedDevice(w.Name)
	}
	return p.stagedFolder(w.Driver(), w.handle())
}

// published is where the pod has its volume.
func (p paths) published(w *Want) place {
	if w.Block() {
		return p.publishedDevice(w.Pod.UID, w.Name)
	}
	return p.publishedFolder(w.Pod.UID, w.Name)
}

// allStaged are the volumes that the node has, or is about to.
func (p paths) allStaged() []place {
	var all []place
	for _, record := range p.glob("plugins", pluginName, "*", "*", dataFile) {
		all = append(all, folderAt(record))
	}
	for _, record := range p.glob("plugins", pluginName, devicesName, "*", "data", dataFile) {
		all = append(all, p.stagedDevice(filepath.Base(filepath.Dir(record))))
	}
	return all
}

// allPublished are the records of the volumes that pods have, or are about to.
func (p paths) allPublished() []string {
	return append(p.glob("pods", "*", "volumes", folderName, "*", dataFile), p.glob("pods", "*", devicesName, recordName, "*", dataFile)...)
}

// of are the volumes of a pod, whether anything is known of them or not.
func (p paths) of(uid types.UID) ([]place, error) {
	var all []place
	for _, kind := range []struct {
		dir string
		at  func(types.UID, string) place
	}{{filepath.Join("volumes", folderName), p.publishedFolder}, {filepath.Join(devicesName, recordName), p.publishedDevice}} {
		entries, err := os.ReadDir(filepath.Join(p.root, "pods", string(uid), kind.dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			all = append(all, kind.at(uid, e.Name()))
		}
	}
	return all, nil
}

func (p paths) glob(parts ...string) []string {
	found, _ := filepath.Glob(filepath.Join(append([]string{p.root}, parts...)...)) // the pattern is well formed
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// ownerOf is the pod whose record a published one's is.
func ownerOf(record string) types.UID {
	return types.UID(filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(record)))))
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
	for _, at := range p.allStaged() {
		if d, err := read(at.record); err == nil && d.Attachment != "" {
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
