package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/cni"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/serving"
)

// clearCall bounds a call by which a pod is taken away.
const clearCall = time.Minute

// CheckRuntime says why no container runtime answers at an endpoint, such as unix:///run/containerd/containerd.sock.
func CheckRuntime(ctx context.Context, endpoint string) error {
	client, err := cri.Dial(endpoint, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Runtime.Version(ctx, &runtimeapi.VersionRequest{}); err != nil {
		return fmt.Errorf("no container runtime answers at %s: %w", endpoint, err)
	}
	return nil
}

// CheckBPF says why the agent's eBPF programs cannot be kept on this machine.
func CheckBPF() error {
	const dir = "/sys/fs/bpf"
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if at.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("%s is not a bpf file system: mount -t bpf bpf %s", dir, dir)
	}
	return nil
}

// Traces are what an agent that does not run any more has left on a machine, with its defaults.
type Traces struct {
	// RuntimeEndpoint is the container runtime's; empty leaves the pods.
	RuntimeEndpoint string
	// Pins, CNIConfig and KubeletDir are those of Config and Network; empty is their default.
	Pins, CNIConfig, KubeletDir string
}

// Clear stops and removes all pods of the runtime, and takes away the programs for services and policies, the network configuration that makes the runtime
// ready, and the certificate of the HTTPS endpoint. What is not there is no error; volumes and images stay. It returns how many pods there were.
func (t Traces) Clear(ctx context.Context) (pods int, err error) {
	if t.RuntimeEndpoint != "" {
		if pods, err = removePods(ctx, t.RuntimeEndpoint); err != nil {
			return pods, err
		}
	}
	pins := orDefault(t.Pins, defaultPins)
	return pods, errors.Join(
		removeTree(pins), removeTree(pins+"-policy"), // their links end with them
		removeTree(orDefault(t.CNIConfig, cni.DefaultConfigFile)),
		serving.Remove(filepath.Join(orDefault(t.KubeletDir, "/var/lib/kubelet"), "pki")),
	)
}

// removeTree is os.RemoveAll, and no error where a part of the way is not there.
func removeTree(path string) error {
	if err := os.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func removePods(ctx context.Context, endpoint string) (int, error) {
	client, err := cri.Dial(endpoint, nil)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	list, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	there, err := client.Runtime.ListPodSandbox(list, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return 0, fmt.Errorf("list the pods of %s: %w", endpoint, err)
	}
	var problems []error
	removed := 0
	for _, sandbox := range there.GetItems() {
		if err := removePod(ctx, client, sandbox.GetId()); err != nil {
			problems = append(problems, fmt.Errorf("remove the pod %s/%s: %w", sandbox.GetMetadata().GetNamespace(), sandbox.GetMetadata().GetName(), err))
			continue
		}
		removed++
	}
	return removed, errors.Join(problems...)
}

func removePod(ctx context.Context, client *cri.Client, id string) error {
	ctx, cancel := context.WithTimeout(ctx, clearCall)
	defer cancel()
	if _, err := client.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return err
	}
	_, err := client.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}
