package codec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// lengthy is a length-delimited field of a protobuf message; its parts have to be short.
func lengthy(number byte, parts ...string) string {
	text := strings.Join(parts, "")
	return string([]byte{number<<3 | 2, byte(len(text))}) + text
}

func TestEnvelopes(t *testing.T) {
	t.Parallel()
	res := pods(t)
	const start = "k8s\x00"
	meta := func(apiVersion, kind string) string { return lengthy(1, lengthy(1, apiVersion), lengthy(2, kind)) }
	body := lengthy(2, lengthy(1, lengthy(1, "x")))
	cut := lengthy(2, "\x0a\x05x")
	for name, c := range map[string]struct{ data, refused string }{
		"a pod":                    {start + meta("v1", "Pod") + body, ""},
		"with an encoding":         {start + meta("v1", "Pod") + body + lengthy(3, "gzip") + lengthy(4, "x"), ""},
		"with a group of fields":   {start + meta("v1", "Pod") + "\x4b\x4c" + body, ""},
		"of no version":            {start + meta("a/b/c", "Pod") + body, ""},
		"of no version or kind":    {start + meta("a/b/c", "X") + body, `no kind "X" is registered for version "v1"`},
		"another kind":             {start + meta("v1", "ConfigMap") + body, "converting (v1.ConfigMap) to (core.Pod): unknown conversion"},
		"another kind, unreadable": {start + meta("v1", "ConfigMap") + cut, "cannot be handled as a Pod: unexpected EOF"},
		"a group that never ends":  {start + meta("v1", "Pod") + body + "\x4b", "unexpected EOF"},
		"cut":                      {start + meta("v1", "Pod") + body[:3], "unexpected EOF"},
		"nothing":                  {"", "empty data"},
		"no body":                  {start, "empty body"},
		"another beginning":        {"k8s\x01" + meta("v1", "Pod") + body, "expected prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{}
			_, err := (Body{Data: []byte(c.data), ContentType: Protobuf.String()}).Into(pod, res.GVK)
			switch {
			case c.refused == "" && (err != nil || pod.Name != "x"):
				t.Errorf("%q, %v", pod.Name, err)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("%v, not %s", err, c.refused)
			}
		})
	}
}
