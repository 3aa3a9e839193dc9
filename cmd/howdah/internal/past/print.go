package past

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// PrintVersions writes versions as a table (empty form and "wide"), or with their objects as "yaml" or "json".
func PrintVersions(out io.Writer, h *apiv1.HistoryResponse, form string, diffs bool, now time.Time) error {
	switch form {
	case "json", "yaml":
		return printDocument(out, h, form)
	case "", "wide":
	default:
		return fmt.Errorf("unknown output format %q: it is wide, yaml or json", form)
	}
	if diffs {
		for _, v := range h.GetVersions() {
			fmt.Fprintf(out, "revision %s\n%s\n", strings.Join(cells(v, true, now), "  "), v.GetDiff())
		}
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	head := "REVISION\tAGE\tOPERATION\tVERB\tUSER\tMANAGER\tLINES"
	if form == "wide" {
		head += "\tPROGRAM\tUID\tTRACE"
	}
	fmt.Fprintln(w, head)
	for _, v := range h.GetVersions() {
		fmt.Fprintln(w, strings.Join(cells(v, form == "wide", now), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if h.GetMore() {
		last := h.GetVersions()[len(h.GetVersions())-1]
		fmt.Fprintf(out, "There are older ones: --before %d shows them.\n", last.GetRevision())
	}
	return nil
}

func cells(v *apiv1.ObjectVersion, wide bool, now time.Time) []string {
	age, operation := "<unknown>", v.GetOperation()
	if v.GetTime() != nil {
		age = duration.HumanDuration(now.Sub(v.GetTime().AsTime()))
	} else {
		operation = "(before the log)"
	}
	added, removed := 0, 0
	for line := range strings.Lines(v.GetDiff()) {
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "+"):
			added++
		case strings.HasPrefix(line, "-"):
			removed++
		}
	}
	row := []string{strconv.FormatInt(v.GetRevision(), 10), age, operation, or(v.GetVerb()), or(v.GetUser()), or(v.GetFieldManager()), fmt.Sprintf("+%d -%d", added, removed)}
	if wide {
		row = append(row, or(v.GetUserAgent()), or(v.GetUid()), or(v.GetTraceId()))
	}
	return row
}

func or(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}

// printDocument writes the versions with their objects as such, and not as texts.
func printDocument(out io.Writer, h *apiv1.HistoryResponse, form string) error {
	type version struct {
		Revision         int64          `json:"revision"`
		Time             string         `json:"time,omitempty"`
		Operation        string         `json:"operation,omitempty"`
		Verb             string         `json:"verb,omitempty"`
		User             string         `json:"user,omitempty"`
		FieldManager     string         `json:"fieldManager,omitempty"`
		UserAgent        string         `json:"userAgent,omitempty"`
		UID              string         `json:"uid,omitempty"`
		TraceID          string         `json:"traceID,omitempty"`
		PreviousRevision int64          `json:"previousRevision,omitempty"`
		Diff             string         `json:"diff,omitempty"`
		Object           map[string]any `json:"object,omitempty"`
	}
	document := struct {
		Kind       string    `json:"kind"`
		APIVersion string    `json:"apiVersion"`
		More       bool      `json:"more,omitempty"`
		Versions   []version `json:"versions"`
	}{Kind: "History", APIVersion: "howdah.dev/v1", More: h.GetMore(), Versions: []version{}}
	for _, v := range h.GetVersions() {
		content, err := Content(v)
		if err != nil {
			return err
		}
		one := version{
			Revision: v.GetRevision(), Operation: v.GetOperation(), Verb: v.GetVerb(), User: v.GetUser(), FieldManager: v.GetFieldManager(),
			UserAgent: v.GetUserAgent(), UID: v.GetUid(), TraceID: v.GetTraceId(), PreviousRevision: v.GetPreviousRevision(), Diff: v.GetDiff(), Object: content,
		}
		if v.GetTime() != nil {
			one.Time = v.GetTime().AsTime().Format(time.RFC3339Nano)
		}
		document.Versions = append(document.Versions, one)
	}
	return Document(out, document, form)
}

// Document writes a value as yaml or json.
func Document(out io.Writer, value any, form string) error {
	text, err := json.MarshalIndent(value, "", "    ")
	if err == nil && form == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.TrimSuffix(string(text), "\n"))
	return err
}

// PrintTable writes a Table of the API as kubectl does.
func PrintTable(out io.Writer, body []byte, wide bool) error {
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		return fmt.Errorf("the gateway's answer is no table: %w", err)
	}
	if len(table.Rows) == 0 {
		_, err := fmt.Fprintln(out, "No resources found.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	line := func(cell func(n int) string) {
		var row []string
		for n, c := range table.ColumnDefinitions {
			if wide || c.Priority == 0 {
				row = append(row, cell(n))
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	line(func(n int) string { return strings.ToUpper(table.ColumnDefinitions[n].Name) })
	for _, r := range table.Rows {
		line(func(n int) string { return fmt.Sprint(r.Cells[n]) })
	}
	return w.Flush()
}
