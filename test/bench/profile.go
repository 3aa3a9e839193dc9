package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// profiler saves CPU profiles of the standalone while it is measured. The zero value saves none.
type profiler struct {
	dir, address string
	running      sync.WaitGroup
}

// take saves the profile of the given period from now on, under the name; it
// returns at once. Only one profile runs at a time: the server refuses more.
func (p *profiler) take(ctx context.Context, name string, period time.Duration) {
	if p.dir == "" || p.address == "" {
		return
	}
	p.running.Wait()
	p.running.Go(func() {
		if err := p.save(ctx, name, period); err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile", name+":", err)
		}
	})
}

// heap saves what lives in the standalone and what it has allocated so far, under the name.
func (p *profiler) heap(ctx context.Context, name string) {
	if p.dir == "" || p.address == "" {
		return
	}
	if err := p.fetch(ctx, "heap?gc=1", name+"-heap"); err != nil {
		fmt.Fprintln(os.Stderr, "bench: profile", name+":", err)
	}
}

func (p *profiler) save(ctx context.Context, name string, period time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, period+10*time.Second)
	defer cancel()
	return p.fetch(ctx, fmt.Sprintf("profile?seconds=%d", max(1, int(period.Seconds()))), name)
}

func (p *profiler) fetch(ctx context.Context, what, name string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/%s", p.address, what)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", response.Status)
	}
	file, err := os.Create(filepath.Join(p.dir, strings.NewReplacer(" ", "-", "/", "-").Replace(name)+".pprof"))
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(file, response.Body)
	return err
}
