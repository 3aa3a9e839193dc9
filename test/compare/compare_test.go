package compare_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/pgtest"
	"howdah.dev/test/compare"
	"howdah.dev/test/internal/standalone"
)

// kubeconfigVariable names the kubeconfig of a howdah that runs already, for whoever works on a difference.
const kubeconfigVariable = "HOWDAH_COMPARE_KUBECONFIG"

// TestAnswersLikeKubernetes has every conversation in cases/ with a standalone.
func TestAnswersLikeKubernetes(t *testing.T) {
	cases, err := compare.ReadCases("cases")
	if err != nil || len(cases) == 0 {
		t.Fatal(len(cases), err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	server, err := compare.NewServer(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			want, err := c.Golden()
			if err != nil {
				t.Fatal(err)
			}
			if len(want) != len(c.Steps) {
				t.Fatalf("%d answers are recorded for %d steps: make compare", len(want), len(c.Steps))
			}
			got, err := server.Replay(ctx, c)
			if err != nil {
				t.Fatal(err)
			}
			for i, step := range c.Steps {
				if diff := cmp.Diff(text(t, want[i]), text(t, got[i])); diff != "" && step.Unlike == "" {
					t.Errorf("step %d, %s: Kubernetes (-), howdah (+)\n%s", i, step.Do, diff)
				} else if diff == "" && step.Unlike != "" {
					t.Errorf("step %d, %s: howdah answers like Kubernetes now: remove unlike", i, step.Do)
				}
			}
		})
	}
}

// text is the answer as lines, in which differences are easy to read.
func text(t *testing.T, answer compare.Answer) []string {
	t.Helper()
	out, err := yaml.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(out), "\n")
}

// kubeconfig starts a standalone without nodes, whose controllers are the only ones that act by themselves.
func kubeconfig(t *testing.T) string {
	t.Helper()
	if path := os.Getenv(kubeconfigVariable); path != "" {
		return path
	}
	dir := t.TempDir()
	binary, err := standalone.Binary("../..", dir)
	if err != nil {
		t.Fatal(err)
	}
	server := pgtest.Start(t, pgtest.Config{})
	process, err := standalone.New(binary, dir, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(t.Context()); err != nil {
		t.Fatal(fmt.Errorf("standalone: %w", err))
	}
	t.Cleanup(process.Stop)
	return process.Kubeconfig()
}
