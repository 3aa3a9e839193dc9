// Package waterfall draws a trace in the terminal.
package waterfall

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Trace is a trace as Jaeger's query API returns it.
type Trace struct {
	ID        string             `json:"traceID"`
	Spans     []Span             `json:"spans"`
	Processes map[string]Process `json:"processes"`
}

// Span is one span; times are in microseconds since 1970.
type Span struct {
	ID         string      `json:"spanID"`
	Name       string      `json:"operationName"`
	Start      int64       `json:"startTime"`
	Duration   int64       `json:"duration"`
	Process    string      `json:"processID"`
	References []Reference `json:"references"`
	Tags       []Tag       `json:"tags"`
}

// Reference points to a span's parent.
type Reference struct {
	Type string `json:"refType"`
	Span string `json:"spanID"`
}

// Tag is an attribute.
type Tag struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// Process is the service that recorded a span.
type Process struct {
	Service string `json:"serviceName"`
}

// Decode reads the answer of Jaeger's /api/traces.
func Decode(r io.Reader) ([]Trace, error) {
	var answer struct {
		Data []Trace `json:"data"`
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read Jaeger's answer: %w", err)
	}
	return answer.Data, nil
}

// Parent returns the id of the span's parent, "" for a root.
func (s Span) Parent() string {
	for _, r := range s.References {
		if r.Type == "CHILD_OF" {
			return r.Span
		}
	}
	return ""
}

// Tag returns an attribute as text, "" where the span has none.
func (s Span) Tag(key string) string {
	for _, t := range s.Tags {
		if t.Key == key {
			return fmt.Sprint(t.Value)
		}
	}
	return ""
}

// row is a span with its depth in the tree.
type row struct {
	Span
	depth int
}

// Print draws the trace: a row a span, parents above children, with a bar of
// at most width columns that shows when it ran.
func Print(out io.Writer, t Trace, width int) error {
	rows := tree(t.Spans)
	if len(rows) == 0 {
		return nil
	}
	start, end := rows[0].Start, rows[0].Start
	services := map[string]bool{}
	for _, r := range rows {
		start, end = min(start, r.Start), max(end, r.Start+r.Duration)
		services[t.Processes[r.Process].Service] = true
	}
	fmt.Fprintf(out, "trace %s: %d spans of %d services in %s\n\n", t.ID, len(rows), len(services), micros(end-start))
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SERVICE\tSPAN\tSTART\tTOOK\tTIMELINE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s%s%s\t+%s\t%s\t%s\n", t.Processes[r.Process].Service, strings.Repeat("  ", r.depth), r.Name, subject(r.Span),
			micros(r.Start-start), micros(r.Duration), bar(r.Span, start, end, width))
	}
	return w.Flush()
}

// subject names the object where it says more than the span's name.
func subject(s Span) string {
	if name := s.Tag("k8s.name"); name != "" {
		return " " + name
	}
	return ""
}

func bar(s Span, start, end int64, width int) string {
	total := max(end-start, 1)
	from := int((s.Start - start) * int64(width) / total)
	length := max(int(s.Duration*int64(width)/total), 1)
	from = min(from, width-1)
	return strings.Repeat(" ", from) + strings.Repeat("█", min(length, width-from))
}

func micros(us int64) string {
	return (time.Duration(us) * time.Microsecond).Round(10 * time.Microsecond).String()
}

// tree orders spans depth first, siblings by start.
func tree(spans []Span) []row {
	known := map[string]bool{}
	for _, s := range spans {
		known[s.ID] = true
	}
	children := map[string][]Span{}
	for _, s := range spans {
		parent := s.Parent()
		if !known[parent] {
			parent = "" // its parent was not recorded: it is a root here
		}
		children[parent] = append(children[parent], s)
	}
	for _, c := range children {
		slices.SortStableFunc(c, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })
	}
	rows := make([]row, 0, len(spans))
	var walk func(parent string, depth int)
	walk = func(parent string, depth int) {
		for _, s := range children[parent] {
			rows = append(rows, row{s, depth})
			if s.ID != parent {
				walk(s.ID, depth+1)
			}
		}
	}
	walk("", 0)
	return rows
}
