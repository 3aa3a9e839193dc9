package release

import (
	"testing"

	semantic "k8s.io/apimachinery/pkg/util/version"
)

func TestVersionCanBeCompared(t *testing.T) {
	t.Parallel()
	if _, err := semantic.ParseSemantic(Version()); err != nil || Version()[0] != 'v' {
		t.Errorf("%q: %v", Version(), err)
	}
}
