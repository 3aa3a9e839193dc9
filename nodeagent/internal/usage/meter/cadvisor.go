package meter

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/nodeagent/internal/usage"
)

// Labels of /metrics/cadvisor: those of a group, and what stands behind them.
var groupLabels = []string{"container", "id", "image", "name", "namespace", "pod"}

// Detailed is a Source that also tells what processes have opened.
type Detailed interface {
	Source
	Opened(group string) (usage.Opened, bool)
}

type table struct {
	source                                            Detailed
	cores                                             float64
	machineCores, machineMemory, version, scrapeError *prometheus.Desc
	groups                                            []series
	networks                                          []netSeries
	started, seen, fsUsage, fsLimit, fsInodes, fsFree *prometheus.Desc
	ioRead, ioWritten, ioReads, ioWrites              *prometheus.Desc
	descriptors, sockets, ulimits                     *prometheus.Desc
}

type netSeries struct {
	desc  *prometheus.Desc
	value func(i *usage.Interface) uint64
}

// Cadvisor returns the collector of /metrics/cadvisor: of its names those that dashboards and alerts read. cores are the machine's.
func Cadvisor(source Detailed, version string, cores int) prometheus.Collector {
	t := &table{source: source, cores: float64(cores)}
	desc := func(name, help string, more ...string) *prometheus.Desc {
		labels := append([]string(nil), groupLabels...)
		return prometheus.NewDesc(name, help, append(labels, more...), nil)
	}
	t.machineCores = prometheus.NewDesc("machine_cpu_cores", "Cores of the machine.", nil, nil)
	t.machineMemory = prometheus.NewDesc("machine_memory_bytes", "Memory of the node.", nil, nil)
	t.version = prometheus.NewDesc("cadvisor_version_info", "1, of this version.", nil, prometheus.Labels{"cadvisorVersion": "howdah " + version})
	t.scrapeError = prometheus.NewDesc("container_scrape_error", "1 where what pods use could not be read.", nil, nil)

	t.groups = groupSeries(desc)
	for _, n := range []struct {
		name, help string
		value      func(i *usage.Interface) uint64
	}{
		{"receive_bytes", "Bytes received.", func(i *usage.Interface) uint64 { return i.RxBytes }},
		{"receive_packets", "Packets received.", func(i *usage.Interface) uint64 { return i.RxPackets }},
		{"receive_packets_dropped", "Packets dropped that came.", func(i *usage.Interface) uint64 { return i.RxDropped }},
		{"receive_errors", "Errors in receiving.", func(i *usage.Interface) uint64 { return i.RxErrors }},
		{"transmit_bytes", "Bytes sent.", func(i *usage.Interface) uint64 { return i.TxBytes }},
		{"transmit_packets", "Packets sent.", func(i *usage.Interface) uint64 { return i.TxPackets }},
		{"transmit_packets_dropped", "Packets dropped that were to go.", func(i *usage.Interface) uint64 { return i.TxDropped }},
		{"transmit_errors", "Errors in sending.", func(i *usage.Interface) uint64 { return i.TxErrors }},
	} {
		t.networks = append(t.networks, netSeries{desc("container_network_"+n.name+"_total", n.help, "interface"), n.value})
	}
	t.started = desc("container_start_time_seconds", "When it started, in seconds since 1970.")
	t.seen = desc("container_last_seen", "When it was last looked at, in seconds since 1970.")
	t.fsUsage = desc("container_fs_usage_bytes", "Bytes that its files take up.", "device")
	t.fsLimit = desc("container_fs_limit_bytes", "Bytes that there are for its files.", "device")
	t.fsInodes = desc("container_fs_inodes_total", "Inodes that there are.", "device")
	t.fsFree = desc("container_fs_inodes_free", "Inodes that are free.", "device")
	t.ioRead = desc("container_fs_reads_bytes_total", "Bytes read from the device.", "device")
	t.ioWritten = desc("container_fs_writes_bytes_total", "Bytes written to the device.", "device")
	t.ioReads = desc("container_fs_reads_total", "Reads of the device.", "device")
	t.ioWrites = desc("container_fs_writes_total", "Writes to the device.", "device")
	t.descriptors = desc("container_file_descriptors", "Files, sockets and whatever else its processes have opened.")
	t.sockets = desc("container_sockets", "Sockets that its processes have opened.")
	t.ulimits = desc("container_ulimits_soft", "Soft limits of its first process; -1 is without a limit.", "ulimit")
	return t
}

// Describe implements prometheus.Collector: nothing is promised, for what there is comes and goes.
func (t *table) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (t *table) Collect(to chan<- prometheus.Metric) {
	e := emitter{to}
	r := t.source.Read(context.Background()) // which is bounded
	failed := 0.0
	if r.Err != nil {
		failed = 1
	}
	e.timeless(t.machineCores, t.cores)
	e.timeless(t.machineMemory, float64(r.Node.Capacity))
	e.timeless(t.version, 1)
	e.timeless(t.scrapeError, failed)
	node := []string{"", "/", "", "", "", ""}
	t.group(e, &r.Node.Measured, node)
	t.network(e, r.Node.At, r.Node.Networks, node)
	e.timeless(t.started, seconds(r.Node.Booted), node...)
	if d := r.Node.Disk; d != nil {
		on := append(append([]string(nil), node...), d.Device)
		e.at(d.At, t.fsUsage, prometheus.GaugeValue, float64(d.Used), on...)
		e.at(d.At, t.fsLimit, prometheus.GaugeValue, float64(d.Capacity), on...)
		e.at(d.At, t.fsInodes, prometheus.GaugeValue, float64(d.Inodes), on...)
		e.at(d.At, t.fsFree, prometheus.GaugeValue, float64(d.InodesFree), on...)
	}
	t.group(e, &r.Node.AllPods, []string{"", "/kubepods", "", "", "", ""})
	for i := range r.Pods {
		p := &r.Pods[i]
		labels := []string{"", p.Group, "", "", p.Namespace, p.Name}
		t.group(e, &p.Measured, labels)
		e.timeless(t.started, seconds(p.Started), labels...)
		t.network(e, r.At, p.Networks, []string{"", p.Group + "/" + p.Sandbox, "", p.Sandbox, p.Namespace, p.Name})
		for j := range p.Containers {
			c := &p.Containers[j]
			labels := []string{c.Name, c.Group, c.Image, c.ID, p.Namespace, p.Name}
			t.group(e, &c.Measured, labels)
			e.timeless(t.started, seconds(c.Started), labels...)
			e.timeless(t.seen, float64(r.At.Unix()), labels...)
			t.files(e, c, r.Node.Images, labels)
			t.opened(e, c, r.At, labels)
		}
	}
}

func (t *table) group(e emitter, m *usage.Measured, labels []string) {
	for i := range t.groups {
		s := &t.groups[i]
		if value, ok := s.value(m); ok {
			e.at(m.At, s.desc, s.kind, value, append(append([]string(nil), labels...), s.extra...)...)
		}
	}
	for _, io := range m.IO {
		on := append(append([]string(nil), labels...), io.Device)
		e.at(m.At, t.ioRead, prometheus.CounterValue, float64(io.ReadBytes), on...)
		e.at(m.At, t.ioWritten, prometheus.CounterValue, float64(io.WrittenBytes), on...)
		e.at(m.At, t.ioReads, prometheus.CounterValue, float64(io.ReadsDone), on...)
		e.at(m.At, t.ioWrites, prometheus.CounterValue, float64(io.WritesFinished), on...)
	}
}

func (t *table) network(e emitter, at time.Time, all []usage.Interface, labels []string) {
	for i := range all {
		for _, s := range t.networks {
			e.at(at, s.desc, prometheus.CounterValue, float64(s.value(&all[i])), append(append([]string(nil), labels...), all[i].Name)...)
		}
	}
}

// files tells what a container's own files take up of the disk that images are on.
func (t *table) files(e emitter, c *usage.Container, on *usage.Filesystem, labels []string) {
	if c.Rootfs == nil {
		return
	}
	device := ""
	if on != nil {
		device = on.Device
	}
	labels = append(append([]string(nil), labels...), device)
	e.at(c.Rootfs.At, t.fsUsage, prometheus.GaugeValue, float64(c.Rootfs.Bytes), labels...)
	if on != nil {
		e.at(on.At, t.fsLimit, prometheus.GaugeValue, float64(on.Capacity), labels...)
	}
}

// opened tells what a container's processes have opened.
func (t *table) opened(e emitter, c *usage.Container, at time.Time, labels []string) {
	if c.Group == "" {
		return
	}
	o, ok := t.source.Opened(c.Group)
	if !ok {
		return
	}
	e.at(at, t.descriptors, prometheus.GaugeValue, float64(o.Descriptors), labels...)
	e.at(at, t.sockets, prometheus.GaugeValue, float64(o.Sockets), labels...)
	if o.MaxFiles != nil {
		e.at(at, t.ulimits, prometheus.GaugeValue, float64(*o.MaxFiles), append(append([]string(nil), labels...), "max_open_files")...)
	}
}
