package main

import (
	"fmt"
	"io"
	"slices"
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

// compare prints what was measured beside what was measured of Kubernetes in the same run, if it was, and beside the references.
// times is the ratio to what was measured here, or else to the reference.
func compare(w io.Writer, ours, theirs []figure) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "measured\tclients\thowdah\t"
	if theirs != nil {
		head += "Kubernetes here\t"
	}
	head += "Kubernetes, issue\ttimes\taim\tserver µs\tdatabase µs\t"
	if theirs != nil {
		head += "kube-apiserver µs\tetcd µs\t"
	}
	fmt.Fprintln(table, head+"client µs\t")
	rows := 0
	for _, r := range append(slices.Clone(references), others(ours, theirs)...) {
		mine, ok := r.in(ours)
		if !ok {
			continue
		}
		rows++
		clients := ""
		if r.clients > 0 {
			clients = fmt.Sprint(r.clients)
		}
		fmt.Fprintf(table, "%s\t%s\t%.4g %s\t", r.scenario, clients, r.of(mine), r.unit)
		base := r.value
		other, measured := r.in(theirs)
		if measured {
			base = r.of(other)
			fmt.Fprintf(table, "%.4g %s\t", base, r.unit)
		} else if theirs != nil {
			fmt.Fprint(table, "\t")
		}
		if r.value > 0 {
			fmt.Fprintf(table, "%.4g %s\t%.2f\t%.2f\t", r.value, r.unit, r.of(mine)/base, r.aim)
		} else {
			fmt.Fprintf(table, "\t%.2f\t\t", r.of(mine)/base)
		}
		fmt.Fprintf(table, "%.0f\t%.0f\t", mine.Server, mine.Database)
		if theirs != nil {
			fmt.Fprintf(table, "%.0f\t%.0f\t", other.Server, other.Database)
		}
		fmt.Fprintf(table, "%.0f\t\n", mine.Client)
	}
	if rows > 0 {
		_ = table.Flush() // to the terminal
	}
}

// others are what was measured of both, and has no figure in the issue.
func others(ours, theirs []figure) (more []reference) {
	for _, f := range ours {
		r := reference{scenario: f.Scenario, clients: f.Clients, unit: "/s", of: perSecond}
		if f.PerSec == 0 {
			r.unit, r.of = "ms", median
		}
		known := slices.ContainsFunc(references, func(other reference) bool { return other.scenario == r.scenario })
		if other, measured := r.in(theirs); !known && measured && r.of(f) > 0 && r.of(other) > 0 {
			more = append(more, r)
		}
	}
	return more
}

// in returns the figure that a reference is to be compared with.
func (r reference) in(figures []figure) (figure, bool) {
	for _, f := range figures {
		if f.Scenario == r.scenario && f.Clients == r.clients {
			return f, true
		}
	}
	return figure{}, false
}
