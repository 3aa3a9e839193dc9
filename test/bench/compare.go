package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// reference is what kube-apiserver 1.36 with etcd 3.6 gives on two such cores, in the median of an otherwise idle machine, to the
// same client with the same objects.
type reference struct {
	scenario string
	clients  int
	unit     string
	value    float64
	// aim is what is to be reached, as a multiple of value.
	aim float64
	of  func(f figure) float64
}

func perSecond(f figure) float64 { return f.PerSec }
func median(f figure) float64    { return f.P50 }
func seconds(f figure) float64   { return f.Seconds }
func mib(f figure) float64       { return f.MiB }

const (
	afterTheRun = "memory after the run"
	peak        = "memory at its peak"
)

var references = []reference{
	{"standalone start to ready", 0, "s", 3.2, 1 / 3.2, seconds},
	{"pod create", 1, "ms", 3.8, 0.4, median}, {"pod create", 16, "/s", 632, 5, perSecond}, {"pod create", 128, "/s", 1038, 5, perSecond},
	{"pod get", 1, "ms", 1000. / 602, 0.4, median}, {"pod get", 16, "/s", 1632, 5, perSecond}, {"pod get", 128, "/s", 2064, 5, perSecond},
	{"pod status patch", 1, "ms", 1000. / 197, 0.4, median}, {"pod status patch", 16, "/s", 595, 5, perSecond}, {"pod status patch", 128, "/s", 805, 5, perSecond},
	{"pod delete", 1, "ms", 1000. / 169, 0.4, median}, {"pod delete", 16, "/s", 504, 5, perSecond}, {"pod delete", 128, "/s", 709, 5, perSecond},
	{"list of 10,000 pods, protobuf, until read", 0, "ms", 195, 0.2, median},
	{"list of 10,000 pods, JSON, until read", 0, "ms", 348, 0.2, median},
	{"list of 1 % of 10,000 pods by label", 0, "ms", 15, 0.2, median},
	{"write to watcher", 1, "ms", 5, 0.2, median}, {"write to watcher", 100, "ms", 7.4, 0.2, median}, {"write to watcher", 1000, "ms", 44, 0.2, median},
	{"write to watcher", 1000, "/s", 68, 20, perSecond},
	{afterTheRun, 0, "MiB", 890 + 480, 0.2, mib}, {peak, 0, "MiB", 2048, 0.2, mib},
}

// compare prints what was measured beside the references.
func compare(w io.Writer, figures []figure) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "measured\tclients\thowdah\tKubernetes\ttimes\taim\tserver µs\tclient µs\t")
	rows := 0
	for _, r := range references {
		for _, f := range figures {
			if f.Scenario != r.scenario || f.Clients != r.clients {
				continue
			}
			rows++
			got := r.of(f)
			clients := ""
			if r.clients > 0 {
				clients = fmt.Sprint(r.clients)
			}
			fmt.Fprintf(table, "%s\t%s\t%.4g %s\t%.4g %s\t%.2f\t%.2f\t%.0f\t%.0f\t\n", r.scenario, clients, got, r.unit, r.value, r.unit, got/r.value, r.aim, f.Server, f.Client)
		}
	}
	if rows > 0 {
		_ = table.Flush() // to the terminal
	}
}
