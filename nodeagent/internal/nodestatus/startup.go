package nodestatus

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// startup tells how long a new node has taken to be ready, and with what. Of a node that the API knew before the agent began it tells nothing: who
// waited for it does not wait any more.
type startup struct {
	mu sync.Mutex
	// The times, in their order; zero is not known, or not yet.
	booted, began, asked, registered, ready time.Time
}

// asking notes that the API is about to be told of the node.
func (s *startup) asking(now time.Time) { s.note(&s.asked, now) }

// made notes that the API has the node, which it did not have before.
func (s *startup) made(now time.Time) { s.note(&s.registered, now) }

// isReady notes that the API knows the node to be ready.
func (s *startup) isReady(now time.Time) {
	s.mu.Lock()
	registered := !s.registered.IsZero()
	s.mu.Unlock()
	if registered {
		s.note(&s.ready, now)
	}
}

// note keeps the first time.
func (s *startup) note(at *time.Time, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.IsZero() {
		*at = now
	}
}

var startupSteps = []struct {
	desc     *prometheus.Desc
	from, to func(s *startup) time.Time
}{
	{startupDesc("pre_kubelet_duration_seconds", "Time from the machine's start to the agent's, of a new node."), (*startup).boot, (*startup).begin},
	{startupDesc("pre_registration_duration_seconds", "Time from the agent's start until it told the API of the node, of a new node."), (*startup).begin, (*startup).ask},
	{startupDesc("registration_duration_seconds", "Time until the API had a new node."), (*startup).ask, (*startup).register},
	{startupDesc("post_registration_duration_seconds", "Time from when the API had a new node until it was ready."), (*startup).register, (*startup).end},
	{startupDesc("duration_seconds", "Time from the machine's start until a new node was ready."), (*startup).boot, (*startup).end},
}

func startupDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kubelet_node_startup_"+name, help, nil, nil)
}

func (s *startup) boot() time.Time     { return s.booted }
func (s *startup) begin() time.Time    { return s.began }
func (s *startup) ask() time.Time      { return s.asked }
func (s *startup) register() time.Time { return s.registered }
func (s *startup) end() time.Time      { return s.ready }

// Describe implements prometheus.Collector.
func (s *startup) Describe(to chan<- *prometheus.Desc) {
	for _, step := range startupSteps {
		to <- step.desc
	}
}

// Collect implements prometheus.Collector: what is not over is not told.
func (s *startup) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.registered.IsZero() {
		return
	}
	for _, step := range startupSteps {
		if from, until := step.from(s), step.to(s); !from.IsZero() && !until.IsZero() {
			to <- prometheus.MustNewConstMetric(step.desc, prometheus.GaugeValue, until.Sub(from).Seconds())
		}
	}
}

// Booted is when the machine started, zero where it does not tell.
func (m Machine) Booted() time.Time {
	file, err := os.Open(filepath.Join(m.Proc, "stat"))
	if err != nil {
		return time.Time{}
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "btime "); ok {
			if at, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
				return time.Unix(at, 0)
			}
		}
	}
	return time.Time{}
}
