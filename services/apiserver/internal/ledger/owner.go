package ledger

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// chargesAgain notes the time of a charge that changes nothing else about who owns what of the quota, and reports whether it is one: the
// manager alone owns all that the charge changes, and was the last to write. Most charges are; to walk the fields of each would be a fifth of
// what a write costs.
func chargesAgain(before, after *corev1.ResourceQuota, manager string, now time.Time) bool {
	entries := before.ManagedFields
	last := len(entries) - 1
	if last < 0 || entries[last].Manager != manager || entries[last].Operation != metav1.ManagedFieldsOperationUpdate || entries[last].Subresource != "status" {
		return false
	}
	for i := range entries {
		owned, ok := ownedOf(&entries[i])
		if !ok {
			return false
		}
		for name, amount := range after.Status.Used {
			if was, had := before.Status.Used[name]; had && was.Cmp(amount) == 0 {
				continue
			}
			if _, owns := owned["f:"+string(name)]; owns != (i == last) {
				return false
			}
		}
	}
	for name := range before.Status.Used {
		if _, still := after.Status.Used[name]; !still {
			return false
		}
	}
	after.ManagedFields = slices.Clone(entries)
	after.ManagedFields[last].Time = &metav1.Time{Time: now.UTC().Truncate(time.Second)}
	return true
}

// ownedOf are the fields of status.used that the entry has. ok is false for an entry that cannot be read.
func ownedOf(entry *metav1.ManagedFieldsEntry) (fields map[string]json.RawMessage, ok bool) {
	if entry.FieldsV1 == nil {
		return nil, false
	}
	text := entry.FieldsV1.GetRawString()
	if !strings.Contains(text, `"f:used"`) {
		return nil, true
	}
	var set struct {
		Status struct {
			Used map[string]json.RawMessage `json:"f:used"`
		} `json:"f:status"`
	}
	err := json.Unmarshal([]byte(text), &set)
	return set.Status.Used, err == nil
}
