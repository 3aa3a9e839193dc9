// Package loglines is the client of the search in what containers have written: it asks, and prints.
package loglines

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/client-go/rest"

	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
)

// page is how many lines are asked for at a time.
const page = 1000

// Newest returns at most limit lines, the newest ones in the order of their time. It asks until it has them, or all was searched.
func Newest(ctx context.Context, client *rest.RESTClient, query url.Values, limit int) ([]*logsv1.Line, error) {
	var lines []*logsv1.Line
	for {
		query.Set("limit", strconv.Itoa(min(limit-len(lines), page)))
		request := client.Get().AbsPath("/howdah/v1/logs")
		for name, values := range query {
			for _, v := range values {
				request.Param(name, v)
			}
		}
		result := request.Do(ctx)
		if err := result.Error(); err != nil { // with the Status that the gateway sent, which Raw leaves out
			return nil, err
		}
		data, err := result.Raw()
		if err != nil {
			return nil, err
		}
		response := &logsv1.SearchResponse{}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, response); err != nil {
			return nil, fmt.Errorf("the gateway's answer is no page of lines: %w", err)
		}
		lines = append(lines, response.GetLines()...)
		if len(lines) >= limit || response.GetContinue() == "" {
			slices.Reverse(lines)
			return lines, nil
		}
		query.Set("continue", response.GetContinue())
	}
}

// timeFormat has the store's precision.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// Printer returns what writes lines in a form: "" as kubectl logs does with --prefix and --timestamps, "wide" with all that is known, "raw" the lines
// alone, "json" a document.
func Printer(form string) (func(io.Writer, []*logsv1.Line) error, error) {
	var one func(l *logsv1.Line) string
	switch form {
	case "":
		one = func(l *logsv1.Line) string {
			return fmt.Sprintf("%s [pod/%s/%s] %s", l.GetTime().AsTime().Format(timeFormat), l.GetPod(), l.GetContainer(), l.GetText())
		}
	case "wide":
		one = func(l *logsv1.Line) string {
			return fmt.Sprintf("%s [%s/pod/%s/%s restarts=%d node=%s %s] %s", l.GetTime().AsTime().Format(timeFormat), l.GetNamespace(), l.GetPod(), l.GetContainer(),
				l.GetRestartCount(), l.GetNode(), l.GetStream(), l.GetText())
		}
	case "raw":
		one = func(l *logsv1.Line) string { return l.GetText() }
	case "json":
		return document, nil
	default:
		return nil, fmt.Errorf("unknown output format %q: it is wide, raw or json", form)
	}
	return func(out io.Writer, lines []*logsv1.Line) error {
		for _, l := range lines {
			if _, err := fmt.Fprintln(out, one(l)); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func document(out io.Writer, lines []*logsv1.Line) error {
	data, err := protojson.MarshalOptions{Multiline: true, Indent: "    ", EmitUnpopulated: true}.Marshal(&logsv1.SearchResponse{Lines: lines})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", data)
	return err
}
