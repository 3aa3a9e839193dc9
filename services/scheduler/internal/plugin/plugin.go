// Package plugin is the table of what profiles enable, disable and configure by name. Adding a plugin is adding its filter or
// score, a row here, and a file with its arguments if it takes any.
package plugin

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/score"
)

// Point is an extension point, by its name in a configuration.
type Point string

// The extension points at which there are plugins.
const (
	PreEnqueue Point = "preEnqueue"
	QueueSort  Point = "queueSort"
	PreFilter  Point = "preFilter"
	Filter     Point = "filter"
	PostFilter Point = "postFilter"
	PreScore   Point = "preScore"
	Score      Point = "score"
	Reserve    Point = "reserve"
	PreBind    Point = "preBind"
	Bind       Point = "bind"
)

// Plugin is a row of the table.
type Plugin struct {
	// Name is Kubernetes'.
	Name string
	// Points are where Kubernetes' reference has it, as far as it does something there.
	Points []Point
	// Whole says that it is at all of its points but PreScore and Score, or at none: its parts do not work alone.
	Whole bool
	// Always says why there is no profile without it, "" where there may be one. It may have a place (%q) for the profile's name.
	Always string
	// Legacy says that it is not in the default profile: Kubernetes has it no more.
	Legacy bool
	// Weight is that of its score in the default profile.
	Weight int32
	// Args are its arguments, nil where it takes none.
	Args *Args
	// Filter and Score are what it does at these points, nil for nothing. They are given arguments that were completed and checked.
	Filter func(args runtime.Object) filter.Filter
	Score  func(args runtime.Object) score.Score
}

// Parts are the points of a plugin but those of its score.
func (p *Plugin) Parts() []Point {
	return slices.DeleteFunc(slices.Clone(p.Points), func(point Point) bool { return point == PreScore || point == Score })
}

// At reports whether the plugin is at a point.
func (p *Plugin) At(point Point) bool { return slices.Contains(p.Points, point) }

// Args are what a plugin may be configured with.
type Args struct {
	// New returns arguments of which nothing is set.
	New func() runtime.Object
	// Complete sets what is not set.
	Complete func(args runtime.Object)
	// Check says all that is wrong with arguments that are completed.
	Check func(path *field.Path, args runtime.Object) field.ErrorList
}

// Unset returns the arguments of who sets nothing, nil where the plugin takes none.
func (p *Plugin) Unset() runtime.Object {
	if p.Args == nil {
		return nil
	}
	args := p.Args.New()
	p.Args.Complete(args)
	return args
}

// object is a pointer to arguments.
type object[T any] interface {
	*T
	runtime.Object
}

func argsOf[T any, P object[T]](complete func(P), check func(*field.Path, P) field.ErrorList) *Args {
	return &Args{
		New:      func() runtime.Object { return P(new(T)) },
		Complete: func(args runtime.Object) { complete(args.(P)) },
		Check:    func(path *field.Path, args runtime.Object) field.ErrorList { return check(path, args.(P)) },
	}
}

// taking makes a filter or a score of the arguments that its plugin takes.
func taking[A runtime.Object, R any](from func(A) R) func(runtime.Object) R {
	return func(args runtime.Object) R { return from(args.(A)) }
}

// plain is a filter or a score without arguments.
func plain[R any](r R) func(runtime.Object) R {
	return func(runtime.Object) R { return r }
}

// Find returns the plugin of a name, nil where there is none.
func Find(name string) *Plugin {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}

// All returns the plugins.
func All() []*Plugin {
	all := make([]*Plugin, 0, len(table))
	for i := range table {
		all = append(all, &table[i])
	}
	return all
}

// Defaults returns those of the default profile, in their order.
func Defaults() []*Plugin {
	return slices.DeleteFunc(All(), func(p *Plugin) bool { return p.Legacy })
}

// Filters returns those of the default profile with default arguments.
func Filters() []filter.Filter {
	var filters []filter.Filter
	for _, p := range Defaults() {
		if p.Filter != nil {
			filters = append(filters, p.Filter(p.Unset()))
		}
	}
	return filters
}

// Scores returns those of the default profile with default arguments and weights.
func Scores() []score.Score {
	var scores []score.Score
	for _, p := range Defaults() {
		if p.Score != nil {
			s := p.Score(p.Unset())
			s.Weight = int64(p.Weight)
			scores = append(scores, s)
		}
	}
	return scores
}

// Absent reports whether a name is that of a plugin which Kubernetes has and howdah has not, so that it may be disabled.
func Absent(name string) bool {
	return slices.Contains([]string{"GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"}, name)
}
