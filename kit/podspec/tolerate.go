package podspec

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// kept are the sorts of faults that may stay in a spec which has such a fault already, from an older version. Each function says whether
// a problem is of its sort.
var kept = [...]func(*field.Error) bool{
	func(err *field.Error) bool { return strings.Contains(err.Detail, partOfPages) },
	func(err *field.Error) bool { return err.Detail == restartedInit },
	func(err *field.Error) bool { return strings.HasPrefix(err.Detail, "may not be specified when 'host") }, // sysctls
	func(err *field.Error) bool {
		return strings.HasSuffix(err.Field, ".volumeDevices") && err.Detail == "when `hostUsers` is false"
	},
	func(err *field.Error) bool {
		return err.Type == field.ErrorTypeInvalid && strings.HasSuffix(err.Field, ".projected.path")
	},
	func(err *field.Error) bool { return spreadSelector.MatchString(err.Field) },
	func(err *field.Error) bool {
		return err.Type == field.ErrorTypeInvalid && podSelectorValue.MatchString(err.Field)
	},
	func(err *field.Error) bool {
		return err.Type == field.ErrorTypeInvalid && nodeSelectorValue.MatchString(err.Field)
	},
}

var (
	spreadSelector    = regexp.MustCompile(`\.topologySpreadConstraints\[\d+\]\.labelSelector\b`)
	podSelectorValue  = regexp.MustCompile(`\.pod(Anti)?Affinity\..*Selector\.matchExpressions\[\d+\]\.values\[\d+\]$`)
	nodeSelectorValue = regexp.MustCompile(`\.nodeAffinity\.required.*\.matchExpressions\[\d+\]\.values\[\d+\]$`)
)

// Tolerated leaves out of the problems of a pod, or of what has a template, those of which the stored spec has such already. meta is the
// metadata beside it.
func Tolerated(errs field.ErrorList, old *corev1.PodSpec, meta *metav1.ObjectMeta) field.ErrorList {
	var was field.ErrorList
	looked := false
	rest := errs[:0]
	for _, err := range errs {
		stays := false
		for _, is := range kept {
			if !is(err) {
				continue
			}
			if !looked { // rarely: most updates have no problems
				was, looked = Validate(old, meta, field.NewPath("spec")), true
			}
			for _, before := range was {
				stays = stays || is(before)
			}
		}
		if !stays {
			rest = append(rest, err)
		}
	}
	return rest
}
