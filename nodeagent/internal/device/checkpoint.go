package device

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/nodeagent/internal/statefile"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// savedData is the file that outlives the agent: whose devices are whose, and which resources there were. It reads like the kubelet's.
type savedData struct {
	PodDeviceEntries  []savedEntry
	RegisteredDevices map[string][]string
}

type savedEntry struct {
	PodUID, ContainerName, ResourceName string
	// DeviceIDs are by NUMA node, -1 for none in particular; a device of several stands under each.
	DeviceIDs map[int64][]string
	AllocResp []byte
}

// noNode stands for devices that are on no node in particular.
const noNode = -1

// save writes the file. The lock is held.
func (m *Manager) save() error {
	data := savedData{PodDeviceEntries: []savedEntry{}, RegisteredDevices: map[string][]string{}}
	for h, resources := range m.held {
		for resource, has := range resources {
			entry := savedEntry{PodUID: string(h.UID), ContainerName: h.Container, ResourceName: resource, DeviceIDs: map[int64][]string{}}
			for _, id := range slices.Sorted(maps.Keys(has.devices)) {
				nodes := has.devices[id]
				if len(nodes) == 0 {
					nodes = []int64{noNode}
				}
				for _, n := range nodes {
					entry.DeviceIDs[n] = append(entry.DeviceIDs[n], id)
				}
			}
			var err error
			if entry.AllocResp, err = proto.Marshal(has.answer); err != nil {
				return err
			}
			data.PodDeviceEntries = append(data.PodDeviceEntries, entry)
		}
	}
	for resource, p := range m.plugins {
		data.RegisteredDevices[resource] = slices.Sorted(maps.Keys(p.healthy()))
	}
	return statefile.Write(filepath.Join(m.cfg.Dir, checkpoint), data)
}

// readCheckpoint returns what the file says. One that is broken is no reason not to start: who has devices is asked for them again when it starts anew.
func readCheckpoint(path string) ([]string, map[Holder]map[string]*holding) {
	held := map[Holder]map[string]*holding{}
	var data savedData
	err := statefile.Read(path, &data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, held
	}
	if err != nil {
		slog.Error("read whose devices are whose", "path", path, "err", err)
		return nil, held
	}
	for _, e := range data.PodDeviceEntries {
		h := &holding{devices: map[string][]int64{}, answer: &pluginapi.ContainerAllocateResponse{}}
		if err := proto.Unmarshal(e.AllocResp, h.answer); err != nil {
			slog.Error("read whose devices are whose", "path", path, "pod", e.PodUID, "err", err)
			continue
		}
		for node, ids := range e.DeviceIDs {
			for _, id := range ids {
				if node == noNode {
					h.devices[id] = nil
					continue
				}
				h.devices[id] = append(h.devices[id], node)
				slices.Sort(h.devices[id])
			}
		}
		key := Holder{types.UID(e.PodUID), e.ContainerName}
		if held[key] == nil {
			held[key] = map[string]*holding{}
		}
		held[key][e.ResourceName] = h
	}
	return slices.Sorted(maps.Keys(data.RegisteredDevices)), held
}
