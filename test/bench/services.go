package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// services reports the memory and processor time of every service of a cluster, as Prometheus has seen them.
func services(ctx context.Context, b *bench) error {
	if b.target != nil {
		return nil // a standalone is one process: idle reports it
	}
	memory, err := b.query(ctx, "process_resident_memory_bytes")
	if err != nil {
		return err
	}
	cpu, err := b.query(ctx, "rate(process_cpu_seconds_total[2m])")
	if err != nil {
		return err
	}
	names := make([]string, 0, len(memory))
	for name := range memory {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.report(figure{Scenario: "service " + name, MiB: memory[name] / (1 << 20), CPU: 100 * cpu[name], Note: "as it is now, over two minutes"})
	}
	return nil
}

// query asks Prometheus for an instant vector, by job and instance.
func (b *bench) query(ctx context.Context, expression string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.prometheus+"/api/v1/query?query="+url.QueryEscape(expression), nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric struct{ Job, Instance string }
				Value  [2]any
			}
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("prometheus: %s", answer.Error)
	}
	found := map[string]float64{}
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("prometheus: %s is %q", expression, text)
		}
		found[r.Metric.Job+" "+r.Metric.Instance] = value
	}
	return found, nil
}
