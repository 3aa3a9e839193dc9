package job

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// none is the completion index of a pod that has none.
const none = -1

// Indexes is a set of completion indexes: ascending ranges that neither overlap nor touch.
type Indexes []Range

// Range is the indexes from First to Last, both included.
type Range struct{ First, Last int }

// ParseIndexes reads the form that status.completedIndexes has, as in "0,2-4". What is malformed or not below the limit is left out.
func ParseIndexes(text string, below int) Indexes {
	var ranges []Range
	for _, part := range strings.Split(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 == nil && err2 == nil && first <= last && first < below {
			ranges = append(ranges, Range{first, min(last, below-1)})
		}
	}
	return normal(ranges)
}

// String is the form that status.completedIndexes has: two neighbours are "1,2", three are "1-3".
func (x Indexes) String() string {
	parts := make([]string, 0, len(x))
	for _, r := range x {
		switch r.Last - r.First {
		case 0:
			parts = append(parts, strconv.Itoa(r.First))
		case 1:
			parts = append(parts, strconv.Itoa(r.First), strconv.Itoa(r.Last))
		default:
			parts = append(parts, strconv.Itoa(r.First)+"-"+strconv.Itoa(r.Last))
		}
	}
	return strings.Join(parts, ",")
}

// Len counts the indexes.
func (x Indexes) Len() int {
	n := 0
	for _, r := range x {
		n += r.Last - r.First + 1
	}
	return n
}

// Has says whether i is one of the indexes.
func (x Indexes) Has(i int) bool {
	at, found := slices.BinarySearchFunc(x, i, func(r Range, i int) int { return cmp.Compare(r.First, i) })
	return found || at > 0 && x[at-1].Last >= i
}

// With returns the indexes and more.
func (x Indexes) With(more ...int) Indexes {
	ranges := slices.Clone(x)
	for _, i := range more {
		ranges = append(ranges, Range{i, i})
	}
	return normal(ranges)
}

// Union returns what is in one of both.
func (x Indexes) Union(y Indexes) Indexes { return normal(slices.Concat(x, y)) }

// Shared counts what is in both.
func (x Indexes) Shared(y Indexes) int { return x.Len() + y.Len() - x.Union(y).Len() }

// Missing returns the first n indexes below the limit that are not among these.
func (x Indexes) Missing(below, n int) []int {
	var missing []int
	next := 0
	for _, r := range append(slices.Clone(x), Range{below, below}) {
		for ; next < min(r.First, below) && len(missing) < n; next++ {
			missing = append(missing, next)
		}
		next = max(next, r.Last+1)
	}
	return missing
}

// normal sorts ranges and joins those that overlap or touch.
func normal(ranges []Range) Indexes {
	slices.SortFunc(ranges, func(a, b Range) int { return cmp.Compare(a.First, b.First) })
	var x Indexes
	for _, r := range ranges {
		if n := len(x); n > 0 && r.First <= x[n-1].Last+1 {
			x[n-1].Last = max(x[n-1].Last, r.Last)
		} else {
			x = append(x, r)
		}
	}
	return x
}

// indexOf is a pod's completion index, or none.
func indexOf(p *corev1.Pod) int {
	i, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || i < 0 {
		return none
	}
	return i
}

// indexesOf are the completion indexes that pods have.
func indexesOf(pods []*corev1.Pod) Indexes {
	var has []int
	for _, p := range pods {
		if i := indexOf(p); i != none {
			has = append(has, i)
		}
	}
	return Indexes(nil).With(has...)
}
