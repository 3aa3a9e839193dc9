package release

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

func TestVersionCanBeCompared(t *testing.T) {
	t.Parallel()
	if _, err := version.ParseSemantic(Version()); err != nil || Version()[0] != 'v' {
		t.Errorf("%q: %v", Version(), err)
	}
}
