package runtimeconfig_test

import (
	"slices"
	"strings"
	"testing"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/runtimeconfig"
)

func resources() []*registry.Resource {
	var all []*registry.Resource
	for _, k := range kind.All(kind.Config{}) {
		all = append(all, k.Versions()...)
	}
	return all
}

func served(t *testing.T, settings ...string) func(name string) bool {
	t.Helper()
	s, err := runtimeconfig.Parse(settings, resources(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range resources() {
		if s.Has(r) {
			names = append(names, strings.TrimPrefix(r.GVR.Group+"/"+r.GVR.Version+"/"+r.GVR.Resource, "/"))
		}
	}
	return func(name string) bool { return slices.Contains(names, name) }
}

func TestWhatIsServed(t *testing.T) {
	t.Parallel()
	const (
		stable, scaler = "apps/v1/deployments", "autoscaling/v1/horizontalpodautoscalers"
		alpha, gated   = "resource.k8s.io/v1alpha3/devicetaintrules", "certificates.k8s.io/v1alpha1/clustertrustbundles"
		beta, mixed    = "networking.k8s.io/v1beta1/servicecidrs", "networking.k8s.io/v1beta1/ingresses"
		removed, pods  = "extensions/v1beta1/deployments", "v1/pods"
	)
	all := []string{stable, scaler, beta, mixed, removed, pods, alpha, gated}
	for settings, want := range map[string][]string{
		"":                                  {stable, scaler, pods},
		"api/all=true":                      {stable, scaler, pods, beta, alpha},
		"api/alpha=true":                    {stable, scaler, pods, alpha},
		"certificates.k8s.io/v1alpha1=true": {stable, scaler, pods},
		"api/beta=true":                     {stable, scaler, pods, beta},
		"api/beta":                          {stable, scaler, pods, beta},
		"api/legacy=true":                   {stable, scaler, pods, removed, mixed},
		"api/legacy=true api/all=true":      {stable, scaler, beta, mixed, removed, pods, alpha},
		"networking.k8s.io/v1beta1=true":    {stable, scaler, pods, beta},
		"networking.k8s.io/v1beta1=1 networking.k8s.io/v1beta1/ingresses=1": {stable, scaler, pods, beta, mixed},
		"extensions/v1beta1=true":                                      {stable, scaler, pods, removed},
		"autoscaling/v1=false":                                         {stable, pods},
		"api/all=false v1=true":                                        {pods},
		"api/all=false api/ga=true":                                    {stable, scaler, pods},
		"api/ga=false apps/v1=true":                                    {stable},
		"extensions/v1beta1/deployments":                               {stable, scaler, pods, removed},
		"extensions/v1beta1/ingresses=true":                            {stable, scaler, pods},
		"api/legacy=true extensions/v1beta1=false":                     {stable, scaler, pods, mixed},
		"extensions/v1beta1=true extensions/v1beta1/deployments=0":     {stable, scaler, pods},
		"v1/pods=false":                                                {stable, scaler},
		"storagemigration.k8s.io/v1beta1=false":                        {stable, scaler, pods},
		"api/legacy=false api/alpha=false networking.k8s.io/v1beta1=f": {stable, scaler, pods},
	} {
		is := served(t, strings.Fields(settings)...)
		for _, name := range all {
			if is(name) != slices.Contains(want, name) {
				t.Errorf("%q: %s is served: %v", settings, name, is(name))
			}
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"foo/v1=true":                     "unknown api groups foo/v1",
		"api/bogus=true":                  "unknown api groups api/bogus",
		"apps/v9=true":                    "group version apps/v9 that has not been registered",
		"apps/v1=maybe":                   `invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`,
		"apps=true":                       "runtime-config invalid key apps",
		"apps/v1/deployments/status=true": "runtime-config invalid key apps/v1/deployments/status",
		"apps/v1/foo=true":                "resource apps/v1/foo that has not been registered",
		"storage.k8s.io/v1alpha1=true":    "group version storage.k8s.io/v1alpha1 cannot be served: Kubernetes has it, this API does not",
		"foo/v1=true apps/v9=true":        "group version apps/v9 that has not been registered\nunknown api groups foo/v1",
	} {
		if _, err := runtimeconfig.Parse(strings.Fields(settings), resources(), nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v", settings, err)
		}
	}
}
