package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"howdah.dev/services/scheduler/internal/plugin"
)

// check says all that is wrong with a configuration that is completed, and all that it asks for in vain.
func check(c *configv1.KubeSchedulerConfiguration) field.ErrorList {
	errs := checkInert(c)
	errs = append(errs, checkBackoffs(c)...)
	path := field.NewPath("profiles")
	names := map[string]bool{}
	for i := range c.Profiles {
		p := &c.Profiles[i]
		name := ""
		if p.SchedulerName != nil {
			name = *p.SchedulerName
		}
		switch {
		case name == "":
			errs = append(errs, field.Required(path.Index(i).Child("schedulerName"), ""))
		case names[name]:
			errs = append(errs, field.Duplicate(path.Index(i).Child("schedulerName"), name))
		}
		names[name] = true
		errs = append(errs, checkProfile(path.Index(i), name, p)...)
	}
	return errs
}

func checkBackoffs(c *configv1.KubeSchedulerConfiguration) field.ErrorList {
	var errs field.ErrorList
	first, last := *c.PodInitialBackoffSeconds, *c.PodMaxBackoffSeconds
	if first <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("podInitialBackoffSeconds"), first, "must be greater than 0"))
	}
	switch path := field.NewPath("podMaxBackoffSeconds"); {
	case last < first:
		errs = append(errs, field.Invalid(path, last, "must be greater than or equal to PodInitialBackoffSeconds"))
	case last > plugin.MaxSeconds:
		errs = append(errs, field.Invalid(path, last, plugin.TooLong))
	}
	return errs
}

// checkInert refuses what cannot act here, unless it says what is so anyway.
func checkInert(c *configv1.KubeSchedulerConfiguration) field.ErrorList {
	var errs field.ErrorList
	refuse := func(asked bool, why string, name string, more ...string) {
		if asked {
			errs = append(errs, field.Forbidden(field.NewPath(name, more...), why))
		}
	}
	if p := c.Parallelism; p != nil && *p <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("parallelism"), *p, "should be an integer value greater than zero"))
	} else {
		refuse(p != nil && *p != 16, "howdah decides for all pods that are alike in one go, on one processor: only the default (16) is taken", "parallelism")
	}
	errs = append(errs, checkPercentage(field.NewPath("percentageOfNodesToScore"), c.PercentageOfNodesToScore)...)
	refuse(len(c.Extenders) > 0, "howdah calls no extenders", "extenders")
	refuse(c.DelayCacheUntilActive, "a standby keeps its caches warm", "delayCacheUntilActive")
	refuse(c.EnableProfiling != nil && !*c.EnableProfiling, "profiles are served where metrics are: --metrics-listen= serves neither", "enableProfiling")
	refuse(c.EnableContentionProfiling != nil && !*c.EnableContentionProfiling, "it cannot be switched", "enableContentionProfiling")

	const elected = "the leader is elected in PostgreSQL (--database-url): only the default is taken"
	l := &c.LeaderElection
	differs := func(d metav1.Duration, from time.Duration) bool { return d.Duration != 0 && d.Duration != from }
	refuse(l.LeaderElect != nil && !*l.LeaderElect, elected, "leaderElection", "leaderElect")
	refuse(differs(l.LeaseDuration, 15*time.Second), elected, "leaderElection", "leaseDuration")
	refuse(differs(l.RenewDeadline, 10*time.Second), elected, "leaderElection", "renewDeadline")
	refuse(differs(l.RetryPeriod, 2*time.Second), elected, "leaderElection", "retryPeriod")
	if l.ResourceLock != "" && l.ResourceLock != "leases" {
		errs = append(errs, field.Invalid(field.NewPath("leaderElection", "resourceLock"), l.ResourceLock, `resourceLock value must be "leases"`))
	}
	refuse(l.ResourceName != "" && l.ResourceName != configv1.SchedulerDefaultLockObjectName, elected, "leaderElection", "resourceName")
	refuse(l.ResourceNamespace != "" && l.ResourceNamespace != configv1.SchedulerDefaultLockObjectNamespace, elected, "leaderElection", "resourceNamespace")

	const dialled = "the API is reached over gRPC (--apiserver, --tls-dir): only the default is taken"
	conn := &c.ClientConnection
	refuse(conn.Kubeconfig != "", dialled, "clientConnection", "kubeconfig")
	refuse(conn.AcceptContentTypes != "", dialled, "clientConnection", "acceptContentTypes")
	refuse(conn.ContentType != "" && conn.ContentType != "application/vnd.kubernetes.protobuf", dialled, "clientConnection", "contentType")
	refuse(conn.QPS != 0 && conn.QPS != 50, dialled, "clientConnection", "qps")
	refuse(conn.Burst != 0 && conn.Burst != 100, dialled, "clientConnection", "burst")
	return errs
}

func checkPercentage(path *field.Path, percentage *int32) field.ErrorList {
	switch {
	case percentage == nil || *percentage == 0 || *percentage == 100:
		return nil
	case *percentage < 0 || *percentage > 100:
		return field.ErrorList{field.Invalid(path, *percentage, "not in valid range [0-100]")}
	}
	return field.ErrorList{field.Forbidden(path, "howdah looks at all nodes: only 0 and 100 are taken")}
}

func checkProfile(path *field.Path, name string, p *configv1.KubeSchedulerProfile) field.ErrorList {
	errs := checkPercentage(path.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore)
	if p.Plugins != nil {
		plugins := path.Child("plugins")
		errs = append(errs, checkSet(plugins.Child("multiPoint"), name, "", p.Plugins.MultiPoint)...)
		for _, c := range points(p.Plugins) {
			errs = append(errs, checkSet(plugins.Child(string(c.point)), name, c.point, c.set)...)
		}
		errs = append(errs, checkParts(plugins, name, merge(p))...)
	}
	return append(errs, checkArgs(path.Child("pluginConfig"), p)...)
}

// checkSet looks at the plugins that are named at a point, "" for all points.
func checkSet(path *field.Path, profile string, point plugin.Point, set configv1.PluginSet) field.ErrorList {
	var errs field.ErrorList
	kind := "Plugin"
	if point != "" {
		kind = strings.ToUpper(string(point[:1])) + string(point[1:]) + kind
	}
	seen := map[string]bool{}
	for i, given := range set.Enabled {
		path, p := path.Child("enabled").Index(i), plugin.Find(given.Name)
		switch {
		case p == nil && plugin.Absent(given.Name):
			errs = append(errs, field.Invalid(path.Child("name"), given.Name, fmt.Sprintf("howdah has no plugin %q (profile %q)", given.Name, profile)))
		case p == nil:
			errs = append(errs, field.Invalid(path.Child("name"), given.Name, fmt.Sprintf("%s %q does not exist (profile %q)", kind, given.Name, profile)))
		case point != "" && !p.At(point):
			errs = append(errs, field.Invalid(path.Child("name"), given.Name, fmt.Sprintf("plugin %q does not extend %s plugin", given.Name, kind)))
		case seen[given.Name]:
			errs = append(errs, field.Invalid(path.Child("name"), given.Name, fmt.Sprintf("plugin %q already registered as %q", given.Name, kind)))
		case given.Weight != nil && *given.Weight < 0:
			errs = append(errs, field.Invalid(path.Child("weight"), *given.Weight, "must be greater than or equal to 0"))
		case given.Weight != nil && *given.Weight != 0 && (point != "" && point != plugin.Score || p.Score == nil):
			errs = append(errs, field.Forbidden(path.Child("weight"), "only scores have a weight"))
		}
		seen[given.Name] = true
	}
	for i, given := range set.Disabled {
		path := path.Child("disabled").Index(i)
		if given.Name != all && plugin.Find(given.Name) == nil && !plugin.Absent(given.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), given.Name, fmt.Sprintf("%s %q does not exist (profile %q)", kind, given.Name, profile)))
		}
		if given.Weight != nil && *given.Weight != 0 {
			errs = append(errs, field.Forbidden(path.Child("weight"), "only scores have a weight"))
		}
	}
	return errs
}

// checkParts refuses profiles that part what only works together.
func checkParts(path *field.Path, profile string, plugins enabled) field.ErrorList {
	var errs field.ErrorList
	at := func(point plugin.Point) *field.Path { return path.Child(string(point)) }
	for _, p := range plugin.All() {
		lacks := func(point plugin.Point) bool { return p.At(point) && !plugins.has(p, point) }
		switch whole := p.Parts(); {
		case p.Always != "" && lacks(p.Points[0]):
			why := p.Always
			if strings.Contains(why, "%q") {
				why = fmt.Sprintf(why, profile)
			}
			errs = append(errs, field.Invalid(at(p.Points[0]), p.Name, why))
		case p.Whole && slices.ContainsFunc(whole, lacks) && !allOf(whole, lacks):
			missing := whole[slices.IndexFunc(whole, lacks)]
			errs = append(errs, field.Invalid(at(missing), p.Name, fmt.Sprintf("works at %v together, or not at all", whole)))
		case !p.Whole && plugins.has(p, plugin.Filter) && lacks(plugin.PreFilter):
			errs = append(errs, field.Invalid(at(plugin.PreFilter), p.Name, "is needed by its filter"))
		}
		if plugins.has(p, plugin.Score) && lacks(plugin.PreScore) {
			errs = append(errs, field.Invalid(at(plugin.PreScore), p.Name, "is needed by its score"))
		}
	}
	return errs
}

func allOf(points []plugin.Point, is func(plugin.Point) bool) bool {
	return !slices.ContainsFunc(points, func(p plugin.Point) bool { return !is(p) })
}

// checkArgs refuses wrong arguments, also of plugins that are not enabled: written configurations have those of all.
func checkArgs(path *field.Path, profile *configv1.KubeSchedulerProfile) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, given := range profile.PluginConfig {
		path, p := path.Index(i), plugin.Find(given.Name)
		switch {
		case seen[given.Name]:
			errs = append(errs, field.Duplicate(path, given.Name))
		case p == nil:
			errs = append(errs, field.Invalid(path.Child("name"), given.Name, fmt.Sprintf("no plugin named %v exists", given.Name)))
		case p.Args == nil:
			errs = append(errs, field.Invalid(path.Child("name"), given.Name, "the plugin takes no arguments in howdah"))
		case given.Args.Object == nil:
			errs = append(errs, field.Required(path.Child("args"), ""))
		default:
			errs = append(errs, p.Args.Check(path.Child("args"), given.Args.Object)...)
		}
		seen[given.Name] = true
	}
	return errs
}
