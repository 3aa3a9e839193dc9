package cni

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func owner(name string) attachment { return attachment{Container: name, Interface: "eth0"} }

func TestAddressesComeBackAsLateAsPossible(t *testing.T) {
	l, p := newLedger(), prefixes("10.77.0.0/29") // .2 to .6
	now := start
	take := func(name string) string {
		t.Helper()
		a, err := l.allocate(p, owner(name), now)
		if err != nil {
			return err.Error()
		}
		return a[0].String()
	}
	expect := func(got, want string) {
		t.Helper()
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	expect(take("a"), "10.77.0.2")
	expect(take("a"), "10.77.0.2") // the same attachment keeps its address
	l.release(owner("a"), now)
	expect(take("b"), "10.77.0.3")
	expect(take("c"), "10.77.0.4")
	expect(take("d"), "10.77.0.5")
	expect(take("e"), "10.77.0.6")
	expect(take("f"), "released less than 30s ago")
	now = now.Add(time.Minute)
	l.release(owner("d"), now)
	expect(take("f"), "10.77.0.2") // rested longest
	now = now.Add(time.Minute)
	expect(take("g"), "10.77.0.5")
	expect(take("h"), "all are in use")
	l.release(owner("b"), now)
	now = now.Add(2 * forget)
	expect(take("h"), "10.77.0.3")
}

func TestUsableAddresses(t *testing.T) {
	for _, tt := range []struct {
		prefix      string
		first, last string
		count       int
	}{
		{"10.77.0.0/24", "10.77.0.2", "10.77.0.254", 253},
		{"10.77.0.0/30", "10.77.0.1", "10.77.0.2", 2},
		{"fd77::/124", "fd77::2", "fd77::f", 14},
	} {
		t.Run(tt.prefix, func(t *testing.T) {
			l, seen := newLedger(), []string{}
			for i := 0; ; i++ {
				a, err := l.allocate(prefixes(tt.prefix), owner(fmt.Sprint(i)), start)
				if err != nil {
					break
				}
				seen = append(seen, a[0].String())
			}
			if len(seen) != tt.count || seen[0] != tt.first || seen[len(seen)-1] != tt.last {
				t.Errorf("%d addresses from %s to %s, want %d from %s to %s", len(seen), seen[0], seen[len(seen)-1], tt.count, tt.first, tt.last)
			}
		})
	}
}

// Many at once, through the file: nobody gets what another has, and a new process sees it all.
func TestLedgerFileIsSharedSafely(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var wg sync.WaitGroup
	taken := map[netip.Addr]int{}
	for i := range 60 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			err := change(dir, func(l *ledger) error {
				a, err := l.allocate(prefixes("10.77.0.0/24"), owner(fmt.Sprint(i)), start)
				if err != nil {
					return err
				}
				mu.Lock()
				taken[a[0]]++
				mu.Unlock()
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	if len(taken) != 60 {
		t.Errorf("60 pods got %d addresses", len(taken))
	}
	l, err := readLedger(filepath.Join(dir, "ledger.json"))
	if err != nil || len(l.Leases) != 60 || len(l.of(owner("7"))) != 1 {
		t.Errorf("on disk: %d leases, %v", len(l.Leases), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ledger.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := change(dir, func(*ledger) error { return nil }); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged ledger: %v", err)
	}
}

func TestWriteConfigChangesTheFileOnlyWhenItMust(t *testing.T) {
	file := filepath.Join(t.TempDir(), "net.d", "10-howdah.conflist")
	c := Config{PodCIDRs: prefixes("10.77.0.0/24"), MTU: 1500}
	if err := WriteConfig(file, c); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteConfig(file, c); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Errorf("an equal configuration replaced the file (%v)", err)
	}
	c.MTU = 1400
	if err := WriteConfig(file, c); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(file); err != nil || os.SameFile(before, after) {
		t.Errorf("a new configuration did not replace the file (%v)", err)
	}
	if err := WriteConfig(file, Config{MTU: 1500}); err == nil {
		t.Error("a configuration with no pod CIDR was written")
	}
}
