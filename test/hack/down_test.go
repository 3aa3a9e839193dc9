package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestDownRemovesVolumes: those, too, that compose does not see, since no server of the set of servers that it is told of uses them.
func TestDownRemovesVolumes(t *testing.T) {
	root := t.TempDir()
	copyScripts(t, root)
	stubs := filepath.Join(root, ".build", "bin") // first in the scripts' PATH
	if err := os.MkdirAll(stubs, 0o755); err != nil {
		t.Fatal(err)
	}
	removed := filepath.Join(root, "removed")
	script(t, stubs, "docker", `case "$1 $2 $3 $4 $5" in
"volume ls -q --filter label=com.docker.compose.project=howdah") echo howdah_postgres; echo howdah_node1 ;;
"volume rm"*) shift 2; echo "$@" >`+removed+` ;;
esac`)
	if out, err := exec.Command(filepath.Join(root, "hack", "down.sh")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, err := os.ReadFile(removed); string(got) != "howdah_postgres howdah_node1\n" {
		t.Errorf("removed %q (%v)", got, err)
	}
}
