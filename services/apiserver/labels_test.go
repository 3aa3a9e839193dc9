package apiserver

import (
	"fmt"
	"testing"
)

// The labels that a namespace was given a moment ago decide over the next pod, every time.
func TestNewLabelsOfANamespaceDecide(t *testing.T) {
	f := startPostgres(t, func(c *Config) { c.DisabledAdmission = []string{"ServiceAccount"} })
	f.must(f.create("v1/namespaces", "", `{"metadata":{"name":"secure"}}`))
	const pod = `{"metadata":{"name":"p%d"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	for i := range 40 {
		level := []string{"restricted", "privileged"}[i%2]
		f.must(f.change("v1/namespaces", "", "secure", "merge-patch+json", fmt.Sprintf(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level)))
		if _, err := f.create("v1/pods", "secure", fmt.Sprintf(pod, i)); (err != nil) != (level == "restricted") {
			t.Fatalf("%d: a plain pod in a namespace that is %s: %v", i, level, err)
		}
	}
}
