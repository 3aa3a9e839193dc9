package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"howdah.dev/cmd/howdah/internal/kubeletconfig"
)

func TestKubeletConfigurationSetsFlags(t *testing.T) {
	t.Parallel()
	for _, name := range kubeletconfig.Settings() {
		if nodeagentCommand().Flags().Lookup(name) == nil {
			t.Errorf("a KubeletConfiguration sets --%s, which is not there", name)
		}
	}
	path := filepath.Join(t.TempDir(), "kubelet.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("maxPods: 50\npodsPerCore: 4\nkubeReserved: {cpu: 100m, memory: 1Gi}\nserializeImagePulls: true\ncontainerLogMaxSize: 1Mi\nregisterWithTaints: [{key: a, effect: NoSchedule}]\n")
	var n nodeFlags
	set := &cobra.Command{}
	n.flags(set)
	if err := set.Flags().Parse([]string{"--config", path, "--max-pods", "20", "--node-name", "n"}); err != nil {
		t.Fatal(err)
	}
	if err := n.kubeletConfig(set.Flags()); err != nil {
		t.Fatal(err)
	}
	cfg, err := n.config(":7443")
	if err != nil || cfg.MaxPods != 20 || cfg.PodsPerCore != 4 || cfg.Reserve.Kube["memory"] != "1Gi" || cfg.ParallelPulls != 1 || cfg.LogBounds.Size != 1<<20 || len(cfg.Taints) != 1 {
		t.Errorf("%v, %+v", err, cfg)
	}
	write("cgroupDriver: systemd\n")
	if err := n.kubeletConfig(set.Flags()); err == nil || !strings.Contains(err.Error(), "cgroupDriver") {
		t.Errorf("%v", err)
	}
}
