package object

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSeries: the first repetition is told, those that follow soon are counted, and one that comes late begins anew.
func TestSeries(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	s := newSeries()
	see := func(name string, after time.Duration, about string) (eventWrite, bool) {
		return s.see(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, InvolvedObject: corev1.ObjectReference{Name: about}, Reason: "FailedScheduling",
			Message: name, EventTime: metav1.NewMicroTime(start.Add(after)),
		})
	}
	for _, tt := range []struct {
		name  string
		after time.Duration
		about string
		event string // that is written, "" for none
		count int32  // of its series, 0 where it is created
	}{
		{"1", 0, "p", "1", 0},
		{"2", time.Second, "q", "2", 0},
		{"3", 2 * time.Second, "p", "1", 2},
		{"4", 3 * time.Second, "p", "", 0},
		{"5", 5 * time.Minute, "p", "1", 4},
		{"6", 12 * time.Minute, "p", "6", 0},
	} {
		w, ok := see(tt.name, tt.after, tt.about)
		if ok != (tt.event != "") || ok && w.event.Name != tt.event {
			t.Fatalf("event %s: written %t, %+v", tt.name, ok, w.event)
		}
		if !ok {
			continue
		}
		var patch struct {
			Series corev1.EventSeries `json:"series"`
		}
		if w.patch != nil {
			if err := json.Unmarshal(w.patch, &patch); err != nil {
				t.Fatal(err)
			}
		}
		if patch.Series.Count != tt.count {
			t.Errorf("event %s: a series of %d, want %d", tt.name, patch.Series.Count, tt.count)
		}
	}
}
