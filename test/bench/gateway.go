package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/kit/pgtest"
	"howdah.dev/test/internal/standalone"
)

// through is what a gateway in a process of its own took.
type through struct {
	watchers, writers int
	latency           figure
	// gateway and apiserver are what an event costs each, in µs of processor time.
	gateway, apiserver float64
	// gatewayMiB and apiserverMiB are what each held more, while the watches stood, than before.
	gatewayMiB, apiserverMiB float64
}

// behindGateways measures watches through gateways that are processes of their own: one whose watchers each have the events for
// themselves, and one whose watchers share them, in turns. It prints both and their ratios.
func (s settings) behindGateways(ctx context.Context, binary, databaseURL string) error {
	dir, err := os.MkdirTemp("", "howdah-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if databaseURL == "" {
		server, err := pgtest.Launch(ctx, pgtest.Config{TCP: true, Fsync: true})
		if err != nil {
			return err
		}
		defer server.Close()
		databaseURL = "postgres://postgres@" + server.Address() + "/postgres?sslmode=disable"
	}
	if databaseURL, err = freshDatabase(ctx, databaseURL); err != nil {
		return err
	}
	mesh, err := standalone.NewMesh(ctx, binary, dir, databaseURL)
	if err != nil {
		return err
	}
	var all [2][]through
	for round, load := range []struct{ watchers, writers, writes int }{{100, 1, 300}, {1000, 1, 200}, {1000, 16, 40}} {
		for n, shared := range []string{"0", "1000"} {
			t, err := s.behind(ctx, mesh, fmt.Sprintf("%d-%s", round, shared), shared, load.watchers, load.writers, load.writes)
			if err != nil {
				return err
			}
			all[n] = append(all[n], t)
		}
	}
	printShared(os.Stdout, all[0], all[1])
	return nil
}

// behind measures one load behind one gateway and one apiserver, which are started for it.
func (s settings) behind(ctx context.Context, mesh *standalone.Mesh, run, shared string, watchers, writers, each int) (t through, err error) {
	t.watchers, t.writers = watchers, writers
	api, err := mesh.APIServer("apiserver-" + run)
	if err != nil {
		return t, err
	}
	if err := api.Start(ctx); err != nil {
		return t, err
	}
	defer api.Stop()
	gateway, err := mesh.Gateway("gateway-"+run, "passthrough:///"+api.Address, "--shared-watches", shared)
	if err != nil {
		return t, err
	}
	if err := gateway.Start(ctx); err != nil {
		return t, err
	}
	defer gateway.Stop()
	config, err := clientcmd.BuildConfigFromFlags("https://"+gateway.Address, mesh.Kubeconfig())
	if err != nil {
		return t, err
	}
	b, err := s.client(config)
	if err != nil {
		return t, err
	}
	b.cpu.dir, b.cpu.address = s.profiles, gateway.Metrics
	defer b.cpu.running.Wait()
	held := func() (g, a float64) {
		g, _ = residentMiB(gateway.PID())
		a, _ = residentMiB(api.PID())
		return g, a
	}
	used := func() (g, a float64) {
		g, _ = cpuSeconds(gateway.PID())
		a, _ = cpuSeconds(api.PID())
		return g, a
	}
	var g0, a0, g1, a1 float64
	gm, am := held()
	t.latency, err = b.raw(ctx, config, "default", "g-"+run, watchers, writers, each, func() {
		t.gatewayMiB, t.apiserverMiB = held()
		t.gatewayMiB, t.apiserverMiB = t.gatewayMiB-gm, t.apiserverMiB-am
		g0, a0 = used()
	})
	if err != nil {
		return t, err
	}
	g1, a1 = used()
	events := float64(writers * each)
	t.gateway, t.apiserver = (g1-g0)*1e6/events, (a1-a0)*1e6/events
	f := t.latency
	f.Scenario, f.Server = "write to watcher behind a gateway that shares "+shared, t.gateway+t.apiserver
	f.Note = fmt.Sprintf("gateway %.0f µs, apiserver %.0f µs an event; the watches hold %.0f and %.0f MiB", t.gateway, t.apiserver, t.gatewayMiB, t.apiserverMiB)
	b.report(f)
	return t, nil
}

// client returns a bench without a target.
func (s settings) client(config *rest.Config) (*bench, error) {
	b := &bench{settings: s, config: config}
	return b, b.connect()
}

// printShared prints what was measured of both, and the ratios of the one that shares to the other.
func printShared(w io.Writer, apiece, shared []through) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, strings.Join([]string{"watchers", "writers", "", "gateway µs", "apiserver µs", "both µs", "p50 ms", "events/s", "gateway MiB", "apiserver MiB", ""}, "\t"))
	for n, a := range apiece {
		b := shared[n]
		row := func(name string, t through) {
			fmt.Fprintf(table, "%d\t%d\t%s\t%.0f\t%.0f\t%.0f\t%.1f\t%.0f\t%.0f\t%.0f\t\n", t.watchers, t.writers, name, t.gateway, t.apiserver, t.gateway+t.apiserver,
				t.latency.P50, t.latency.PerSec, t.gatewayMiB, t.apiserverMiB)
		}
		row("apiece", a)
		row("shared", b)
		fmt.Fprintf(table, "\t\tratio\t%.2f\t%.2f\t%.2f\t\t\t%.2f\t%.2f\t\n", b.gateway/a.gateway, b.apiserver/a.apiserver,
			(b.gateway+b.apiserver)/(a.gateway+a.apiserver), b.gatewayMiB/a.gatewayMiB, b.apiserverMiB/a.apiserverMiB)
	}
	_ = table.Flush() // to the terminal
}

// settle is how long the watches stand before they are measured: what their beginning has cost is then over.
const settle = 2 * time.Second
