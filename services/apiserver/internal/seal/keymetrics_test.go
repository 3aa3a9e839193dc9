package seal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	testclock "k8s.io/utils/clock/testing"
)

func TestKeysAreToldByTheirHashes(t *testing.T) {
	t.Parallel()
	p, entry := startPlugin(t)
	registry := prometheus.NewRegistry()
	clock := testclock.NewFakeClock(time.Unix(1000, 0))
	set, err := Parse([]byte(config("secrets", entry)), clock, NewMetrics(registry, prometheus.WrapRegistererWith(prometheus.Labels{"apiserver_id_hash": "a"}, registry)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	stored, err := set.Seal(t.Context(), storeKey, []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := set.Open(t.Context(), storeKey, stored); err != nil {
			t.Fatal(err)
		}
	}
	clock.Step(pollUnhealthy)
	for _, id := range []string{"", strings.Repeat("x", 1025)} {
		p.set(func(p *plugin) { p.keyID = id })
		if set.Healthy(t.Context()) == nil {
			t.Errorf("a key named %q is good", id)
		}
		clock.Step(pollUnhealthy)
	}
	const key = "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b" // of "1"
	want := strings.ReplaceAll(`
# HELP apiserver_envelope_encryption_invalid_key_id_from_status_total Times that a plugin named a key by what can be no name: empty or too_long.
# TYPE apiserver_envelope_encryption_invalid_key_id_from_status_total counter
apiserver_envelope_encryption_invalid_key_id_from_status_total{error="empty",provider_name="test"} 1
apiserver_envelope_encryption_invalid_key_id_from_status_total{error="too_long",provider_name="test"} 1
# HELP apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds When a plugin's key was last of use.
# TYPE apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds gauge
apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds{apiserver_id_hash="a",key_id_hash="KEY",provider_name="test",transformation_type="from_storage"} 1000
apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds{apiserver_id_hash="a",key_id_hash="KEY",provider_name="test",transformation_type="to_storage"} 1000
# HELP apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds When a plugin last said that this is its key.
# TYPE apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds gauge
apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds{apiserver_id_hash="a",key_id_hash="KEY",provider_name="test"} 1000
# HELP apiserver_envelope_encryption_key_id_hash_total Values that were encrypted or decrypted with a seed under a plugin's key.
# TYPE apiserver_envelope_encryption_key_id_hash_total counter
apiserver_envelope_encryption_key_id_hash_total{apiserver_id_hash="a",key_id_hash="KEY",provider_name="test",transformation_type="from_storage"} 2
apiserver_envelope_encryption_key_id_hash_total{apiserver_id_hash="a",key_id_hash="KEY",provider_name="test",transformation_type="to_storage"} 1
`, "KEY", key)
	var names []string
	for _, name := range []string{"invalid_key_id_from_status_total", "key_id_hash_total", "key_id_hash_last_timestamp_seconds", "key_id_hash_status_last_timestamp_seconds"} {
		names = append(names, "apiserver_envelope_encryption_"+name)
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}

func TestTheLastKeysAreTold(t *testing.T) {
	t.Parallel()
	m := NewMetrics(nil, nil)
	at := time.Unix(1000, 0)
	m.keyUsed(toStorage, "p", "first", at)
	for i := range keysTold {
		m.keyUsed(toStorage, "p", fmt.Sprint(i), at.Add(time.Minute))
	}
	if n := testutil.CollectAndCount(m.keys.uses); n != keysTold {
		t.Errorf("%d keys are told", n)
	}
	if m.keys.uses.DeleteLabelValues(toStorage, "p", hashOf("first")) {
		t.Error("that which was used before all others is still told")
	}
}

func TestConfigurationInForce(t *testing.T) {
	t.Parallel()
	m := NewMetrics(nil, nil)
	m.InForce([32]byte{1})
	m.InForce([32]byte{2})
	if n := testutil.CollectAndCount(m.inForce); n != 1 {
		t.Errorf("%d configurations are in force", n)
	}
}
