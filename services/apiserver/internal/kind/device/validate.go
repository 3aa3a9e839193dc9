package device

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/row"
)

var specPath, statusPath = field.NewPath("spec"), field.NewPath("status")

func validateClass(c *resourcev1.DeviceClass) field.ErrorList {
	errs := atMost(c.Spec.Selectors, resourcev1.DeviceSelectorsMaxSize, specPath.Child("selectors"), validateSelector)
	errs = append(errs, atMost(c.Spec.Config, resourcev1.DeviceConfigMaxSize, specPath.Child("config"),
		func(c *resourcev1.DeviceClassConfiguration, p *field.Path) field.ErrorList {
			return validateConfiguration(&c.DeviceConfiguration, p)
		})...)
	if name := c.Spec.ExtendedResourceName; name != nil {
		path := specPath.Child("extendedResourceName")
		if !podspec.Extended(corev1.ResourceName(*name)) {
			errs = append(errs, field.Invalid(path, *name, "must be a valid extended resource name"))
		}
	}
	return errs
}

func validateClaim(c *resourcev1.ResourceClaim) field.ErrorList {
	return validateDevices(&c.Spec.Devices, specPath.Child("devices"))
}

func validateClaimUpdate(c, old *resourcev1.ResourceClaim) field.ErrorList {
	return apivalidation.ValidateImmutableField(c.Spec, old.Spec, specPath)
}

func validateTemplate(t *resourcev1.ResourceClaimTemplate) field.ErrorList {
	path := specPath.Child("metadata")
	errs := apivalidation.ValidateAnnotations(t.Spec.Annotations, path.Child("annotations"))
	errs = append(errs, metavalidation.ValidateLabels(t.Spec.Labels, path.Child("labels"))...)
	errs = append(errs, onlyLabels(&t.Spec.ObjectMeta, path)...)
	return append(errs, validateDevices(&t.Spec.Spec.Devices, specPath.Child("spec", "devices"))...)
}

// onlyLabels refuses what a template cannot say of the claims that are made of it.
func onlyLabels(m *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"name", m.Name != ""},
		{"generateName", m.GenerateName != ""},
		{"namespace", m.Namespace != ""},
		{"selfLink", m.SelfLink != ""},
		{"uID", m.UID != ""},
		{"resourceVersion", m.ResourceVersion != ""},
		{"generation", m.Generation != 0},
		{"creationTimestamp", !m.CreationTimestamp.IsZero()},
		{"deletionTimestamp", m.DeletionTimestamp != nil},
		{"deletionGracePeriodSeconds", m.DeletionGracePeriodSeconds != nil},
		{"ownerReferences", m.OwnerReferences != nil},
		{"finalizers", m.Finalizers != nil},
		{"managedFields", m.ManagedFields != nil},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), "cannot be set"))
		}
	}
	return errs
}

func validateTemplateUpdate(t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return apivalidation.ValidateImmutableField(t.Spec, old.Spec, specPath)
}

func validateClaimStatus(c, old *resourcev1.ResourceClaim) field.ErrorList {
	s, names := &c.Status, requestNames(&c.Spec.Devices)
	reserved := statusPath.Child("reservedFor")
	errs := set(s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, reserved, validateConsumer,
		func(r *resourcev1.ResourceClaimConsumerReference) string { return string(r.UID) })
	errs = append(errs, validateDeviceStatuses(s, &old.Status, statusPath.Child("devices"))...)
	if len(s.ReservedFor) > 0 && s.Allocation == nil {
		errs = append(errs, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
	}
	if c.DeletionTimestamp != nil && slices.ContainsFunc(s.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return !slices.Contains(old.Status.ReservedFor, r)
	}) {
		errs = append(errs, field.Forbidden(reserved, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	switch {
	case s.Allocation == nil:
	case old.Status.Allocation == nil:
		errs = append(errs, validateAllocation(s.Allocation, names, statusPath.Child("allocation"))...)
	case !equality.Semantic.DeepEqual(old.Status.Allocation, s.Allocation):
		errs = append(errs, field.Invalid(statusPath.Child("allocation"), s.Allocation, check.Immutable))
	}
	return errs
}

func validateConsumer(r *resourcev1.ResourceClaimConsumerReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, value string }{{"resource", r.Resource}, {"name", r.Name}, {"uid", string(r.UID)}} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), ""))
		}
	}
	return errs
}

func validateAllocation(a *resourcev1.AllocationResult, names requests, path *field.Path) field.ErrorList {
	errs := atMost(a.Devices.Results, resourcev1.AllocationResultsMaxSize, path.Child("devices", "results"),
		func(r *resourcev1.DeviceRequestAllocationResult, p *field.Path) field.ErrorList {
			errs := reference(r.Request, names, p.Child("request"))
			errs = append(errs, validateDriver(r.Driver, p.Child("driver"))...)
			errs = append(errs, validatePool(r.Pool, p.Child("pool"))...)
			errs = append(errs, check.Label(r.Device, p.Child("device"))...)
			errs = append(errs, validateBinding(r.BindingConditions, r.BindingFailureConditions, p)...)
			if r.ShareID != nil {
				errs = append(errs, validateShare(string(*r.ShareID), p.Child("shareID"))...)
			}
			return errs
		})
	errs = append(errs, atMost(a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, path.Child("devices", "config"),
		func(c *resourcev1.DeviceAllocationConfiguration, p *field.Path) field.ErrorList {
			errs := check.Choice(c.Source, p.Child("source"), resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)
			errs = append(errs, references(c.Requests, names, p.Child("requests"))...)
			return append(errs, validateConfiguration(&c.DeviceConfiguration, p)...)
		})...)
	if a.NodeSelector != nil {
		errs = append(errs, podspec.NodeSelector(a.NodeSelector, path.Child("nodeSelector"))...)
	}
	return errs
}

func validatePool(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(path, "" /* it is too long to be shown */, resourcev1.PoolNameMaxLength))
	}
	for _, part := range strings.Split(name, "/") {
		errs = append(errs, check.Subdomain(part, path)...)
	}
	return errs
}

// allocated names a device, or the share of one, as Kubernetes shows it.
type allocated struct{ Driver, Pool, Device, ShareID string }

// devicesOf are the devices that are allocated.
func devicesOf(a *resourcev1.AllocationResult) map[allocated]bool {
	devices := map[allocated]bool{}
	if a != nil {
		for _, r := range a.Devices.Results {
			devices[allocated{r.Driver, r.Pool, r.Device, string(row.Deref(r.ShareID))}] = true
		}
	}
	return devices
}

// toldOf is the device that is told of.
func toldOf(d *resourcev1.AllocatedDeviceStatus) allocated {
	return allocated{d.Driver, d.Pool, d.Device, row.Deref(d.ShareID)}
}

// forget drops what is told of devices that are no longer allocated: who takes an allocation back need not know of it.
func forget(s, old *resourcev1.ResourceClaimStatus) {
	still := devicesOf(s.Allocation)
	for was := range devicesOf(old.Allocation) {
		if !still[was] {
			s.Devices = slices.DeleteFunc(s.Devices, func(d resourcev1.AllocatedDeviceStatus) bool { return toldOf(&d) == was })
		}
	}
	if len(s.Devices) == 0 {
		s.Devices = nil
	}
}

// validateDeviceStatuses lets those be that were there before.
func validateDeviceStatuses(s, old *resourcev1.ResourceClaimStatus, path *field.Path) field.ErrorList {
	known := devicesOf(s.Allocation)
	var errs field.ErrorList
	for i, d := range s.Devices {
		at, me := path.Index(i), toldOf(&d)
		if slices.ContainsFunc(old.Devices, func(o resourcev1.AllocatedDeviceStatus) bool { return equality.Semantic.DeepEqual(o, d) }) {
			continue
		}
		errs = append(errs, validateDriver(d.Driver, at.Child("driver"))...)
		errs = append(errs, validatePool(d.Pool, at.Child("pool"))...)
		errs = append(errs, check.Label(d.Device, at.Child("device"))...)
		if d.ShareID != nil {
			errs = append(errs, validateShare(*d.ShareID, at.Child("shareID"))...)
		}
		if !known[me] {
			errs = append(errs, field.Invalid(at, me, "must be an allocated device in the claim"))
		}
		if most := resourcev1.AllocatedDeviceStatusMaxConditions; len(d.Conditions) > most {
			errs = append(errs, field.TooMany(at.Child("conditions"), len(d.Conditions), most))
		}
		errs = append(errs, metavalidation.ValidateConditions(d.Conditions, at.Child("conditions"))...)
		if d.Data != nil && len(d.Data.Raw) > 0 {
			errs = append(errs, validateRaw(*d.Data, resourcev1.AllocatedDeviceStatusDataMaxLength, at.Child("data"))...)
		}
		if d.NetworkData != nil {
			errs = append(errs, validateNetwork(d.NetworkData, at.Child("networkData"))...)
		}
	}
	return append(errs, unique(s.Devices, path, toldOf)...)
}

func validateNetwork(n *resourcev1.NetworkDeviceData, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name, value string
		most        int
	}{
		{"interfaceName", n.InterfaceName, resourcev1.NetworkDeviceDataInterfaceNameMaxLength},
		{"hardwareAddress", n.HardwareAddress, resourcev1.NetworkDeviceDataHardwareAddressMaxLength},
	} {
		if len(f.value) > f.most {
			errs = append(errs, field.TooLong(path.Child(f.name), "" /* it is too long to be shown */, f.most))
		}
	}
	return append(errs, set(n.IPs, resourcev1.NetworkDeviceDataMaxIPs, path.Child("ips"),
		func(ip *string, p *field.Path) field.ErrorList { return validation.IsValidInterfaceAddress(p, *ip) },
		func(ip *string) string { return *ip })...)
}
