package storage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

const longestDriver = 63

// longestMessage bounds what a volume's error says, in bytes.
const longestMessage = 1024

func driverName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > longestDriver {
		errs = append(errs, field.TooLong(path, name, longestDriver))
	}
	return append(errs, check.Each(apivalidation.NameIsDNSSubdomain(strings.ToLower(name), false), name, path)...)
}

func attachment(now func() time.Time) *registry.Kind {
	type va = storagev1.VolumeAttachment
	k := row.Of[va, storagev1.VolumeAttachmentList](storagev1.SchemeGroupVersion, "volumeattachments")
	k.NeedsRevision = true
	k.PrepareCreate = typed.Do(func(a *va) { a.Status = storagev1.VolumeAttachmentStatus{} })
	k.PrepareUpdate = typed.Change(func(a, old *va) { a.Status = old.Status })
	row.Status(k, func(a *va) *storagev1.VolumeAttachmentSpec { return &a.Spec }, func(a, _ *va) field.ErrorList {
		errs := volumeError(a.Status.AttachError, field.NewPath("status", "attachError"))
		return append(errs, volumeError(a.Status.DetachError, field.NewPath("status", "detachError"))...)
	})
	row.KeepMeta(k)
	k.Validate = typed.Check(func(a *va) field.ErrorList {
		path := field.NewPath("spec")
		errs := driverName(a.Spec.Attacher, path.Child("attacher"))
		source, name, inline := path.Child("source"), a.Spec.Source.PersistentVolumeName, a.Spec.Source.InlineVolumeSpec
		switch {
		case name == nil && inline == nil:
			errs = append(errs, field.Required(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
		case name != nil && inline != nil:
			errs = append(errs, field.Forbidden(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
		case name != nil:
			if at := source.Child("persistentVolumeName"); *name == "" {
				errs = append(errs, field.Required(at, "must specify non empty persistentVolumeName"))
			}
		default:
			errs = append(errs, inlineSpec(inline, source.Child("inlineVolumeSpec"))...)
		}
		errs = append(errs, check.Subdomain(a.Spec.NodeName, path.Child("nodeName"))...)
		if name != nil {
			errs = append(errs, check.Subdomain(*name, source.Child("persistentVolumeName"))...)
		}
		return errs
	})
	k.ValidateUpdate = typed.CheckChange(func(a, old *va) field.ErrorList {
		return check.Same(a.Spec, old.Spec, field.NewPath("spec"))
	})
	doc := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), named(column.String("Attacher", doc["attacher"])),
		column.String("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
		column.String("Node", doc["nodeName"]), column.Boolean("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]), column.Age(),
	}
	k.Cells = typed.Get(func(a *va) []any {
		return []any{
			a.Name, a.Spec.Attacher, row.Deref(a.Spec.Source.PersistentVolumeName), a.Spec.NodeName, a.Status.Attached,
			column.Since(now(), a.CreationTimestamp.Time),
		}
	})
	return k
}

func volumeError(e *storagev1.VolumeError, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if e != nil && len(e.Message) > longestMessage {
		errs = append(errs, field.TooLong(path.Child("message"), "", 256<<10)) // the limit of attachments' metadata is told
	}
	if e != nil && e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(path.Child("errorCode"), *e.ErrorCode, "must be between 0 and 2147483647, inclusive"))
	}
	return errs
}

func driver(now func() time.Time) *registry.Kind {
	k := row.Of[storagev1.CSIDriver, storagev1.CSIDriverList](storagev1.SchemeGroupVersion, "csidrivers")
	k.NeedsRevision = true
	row.Spec(k, func(d *storagev1.CSIDriver) *storagev1.CSIDriverSpec { return &d.Spec })
	counted := k.PrepareUpdate
	k.PrepareCreate = typed.Do(func(d *storagev1.CSIDriver) { dropScheduling(d, nil) })
	k.PrepareUpdate = func(obj, old registry.Object) {
		dropScheduling(obj.(*storagev1.CSIDriver), old.(*storagev1.CSIDriver))
		counted(obj, old)
	}
	k.Warnings = typed.Warn(func(d, old *storagev1.CSIDriver) []string {
		if old != nil && equality.Semantic.DeepEqual(d.Spec.TokenRequests, old.Spec.TokenRequests) {
			return nil
		}
		if len(d.Spec.TokenRequests) > 0 && d.Spec.ServiceAccountTokenInSecrets == nil {
			return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
		}
		return nil
	})
	k.Default = typed.Do(func(d *storagev1.CSIDriver) {
		s := &d.Spec
		row.Set(&s.AttachRequired, true)
		for _, b := range []**bool{&s.PodInfoOnMount, &s.StorageCapacity, &s.RequiresRepublish, &s.SELinuxMount} {
			row.Set(b, false)
		}
		row.Set(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(s.VolumeLifecycleModes) == 0 {
			s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
	})
	k.Validate = typed.Check(validateDriver)
	k.ValidateUpdate = typed.CheckChange(func(d, old *storagev1.CSIDriver) field.ErrorList {
		path := field.NewPath("spec")
		errs := check.Same(d.Spec.AttachRequired, old.Spec.AttachRequired, path.Child("attachedRequired"))
		return append(errs, check.Same(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, path.Child("volumeLifecycleModes"))...)
	})
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.Boolean("AttachRequired", doc["attachRequired"]), column.Boolean("PodInfoOnMount", doc["podInfoOnMount"]),
		column.Boolean("StorageCapacity", doc["storageCapacity"]), column.String("TokenRequests", doc["tokenRequests"]),
		column.Boolean("RequiresRepublish", doc["requiresRepublish"]), column.String("Modes", doc["volumeLifecycleModes"]), column.Age(),
	}
	k.Cells = typed.Get(func(d *storagev1.CSIDriver) []any {
		s := &d.Spec
		var modes, audiences []string
		for _, m := range s.VolumeLifecycleModes {
			modes = append(modes, string(m))
		}
		for _, t := range s.TokenRequests {
			audiences = append(audiences, t.Audience)
		}
		return []any{
			d.Name, s.AttachRequired == nil || *s.AttachRequired, row.Deref(s.PodInfoOnMount), row.Deref(s.StorageCapacity),
			column.Or(strings.Join(audiences, ","), "<unset>"), row.Deref(s.RequiresRepublish), column.Or(strings.Join(modes, ","), column.None),
			column.Since(now(), d.CreationTimestamp.Time),
		}
	})
	return k
}

// dropScheduling drops the field of a feature that is off by default, from drivers that did not have it.
func dropScheduling(d, old *storagev1.CSIDriver) {
	if old == nil || old.Spec.PreventPodSchedulingIfMissing == nil {
		d.Spec.PreventPodSchedulingIfMissing = nil
	}
}

const shortestToken, longestToken = 10 * 60, 1 << 32

func validateDriver(d *storagev1.CSIDriver) field.ErrorList {
	var errs field.ErrorList
	s, path := &d.Spec, field.NewPath("spec")
	for _, b := range []struct {
		name  string
		value *bool
	}{{"attachedRequired", s.AttachRequired}, {"podInfoOnMount", s.PodInfoOnMount}, {"storageCapacity", s.StorageCapacity}} {
		if b.value == nil {
			errs = append(errs, field.Required(path.Child(b.name), ""))
		}
	}
	if s.FSGroupPolicy == nil {
		errs = append(errs, field.Required(path.Child("fsGroupPolicy"), ""))
	} else {
		errs = append(errs, check.OneOf(*s.FSGroupPolicy, path.Child("fsGroupPolicy"), storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy,
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy)...)
	}
	seen := map[string]bool{}
	for i, t := range s.TokenRequests {
		at := path.Child("tokenRequests").Index(i)
		if seen[t.Audience] {
			errs = append(errs, field.Duplicate(at.Child("audience"), t.Audience))
			continue
		}
		seen[t.Audience] = true
		if n := t.ExpirationSeconds; n != nil && *n < shortestToken {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *n, "may not specify a duration less than 10 minutes"))
		} else if n != nil && *n > longestToken {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *n, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	for _, m := range s.VolumeLifecycleModes {
		errs = append(errs, check.Supported(m, path.Child("volumeLifecycleModes"), storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)...)
	}
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < 10 {
		errs = append(errs, field.Invalid(path.Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds"))
	}
	if b := s.ServiceAccountTokenInSecrets; b != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(path.Child("serviceAccountTokenInSecrets"), *b, "serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

const longestNodeID = 256

func node(now func() time.Time) *registry.Kind {
	k := row.Of[storagev1.CSINode, storagev1.CSINodeList](storagev1.SchemeGroupVersion, "csinodes")
	k.NeedsRevision = true
	k.Validate = typed.Check(func(n *storagev1.CSINode) field.ErrorList {
		var errs field.ErrorList
		seen := map[string]bool{}
		for i, d := range n.Spec.Drivers {
			at := field.NewPath("spec", "drivers").Index(i)
			errs = append(errs, driverName(d.Name, at.Child("name"))...)
			if d.NodeID == "" {
				errs = append(errs, field.Required(at.Child("nodeID"), ""))
			} else if len(d.NodeID) > longestNodeID {
				errs = append(errs, field.Invalid(at.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", longestNodeID)))
			}
			if d.Allocatable != nil && d.Allocatable.Count != nil {
				errs = append(errs, check.NonNegative(*d.Allocatable.Count, at.Child("allocatable", "count"))...)
			}
			if seen[d.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
			}
			seen[d.Name] = true
			for j, key := range d.TopologyKeys {
				if slices.Contains(d.TopologyKeys[:j], key) {
					errs = append(errs, field.Duplicate(at, key))
				}
				if key == "" {
					errs = append(errs, field.Required(at, ""))
				}
				errs = append(errs, check.QualifiedName(key, at)...)
			}
		}
		return errs
	})
	// A driver that a node has is what it is: another has to be registered anew.
	k.ValidateUpdate = typed.CheckChange(func(n, old *storagev1.CSINode) field.ErrorList {
		var errs field.ErrorList
		path := field.NewPath("spec", "drivers")
		for _, d := range n.Spec.Drivers {
			for _, was := range old.Spec.Drivers {
				if was.Name != d.Name {
					continue
				}
				was.Allocatable, d.Allocatable = nil, nil // follows the attached devices
				errs = append(errs, check.Same(d, was, path)...)
			}
		}
		return errs
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.Integer("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), column.Age(),
	}
	k.Cells = typed.Get(func(n *storagev1.CSINode) []any {
		return []any{n.Name, int64(len(n.Spec.Drivers)), column.Since(now(), n.CreationTimestamp.Time)}
	})
	return k
}

func capacity() *registry.Kind {
	type sc = storagev1.CSIStorageCapacity
	k := row.Of[sc, storagev1.CSIStorageCapacityList](storagev1.SchemeGroupVersion, "csistoragecapacities")
	k.Namespaced, k.NeedsRevision = true, true
	typed.Ratchet(k, func(c, old *sc) field.ErrorList {
		var selectors metavalidation.LabelSelectorValidationOptions
		if old != nil {
			selectors = check.Selectors(old.NodeTopology)
		}
		errs := metavalidation.ValidateLabelSelector(c.NodeTopology, selectors, field.NewPath("nodeTopology"))
		errs = append(errs, check.Subdomain(c.StorageClassName, field.NewPath("storageClassName"))...)
		if c.Capacity != nil && c.Capacity.Sign() < 0 {
			errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), check.Negative))
		}
		return errs
	})
	k.ValidateUpdate = typed.CheckChange(func(c, old *sc) field.ErrorList {
		errs := check.Same(c.NodeTopology, old.NodeTopology, field.NewPath("nodeTopology"))
		return append(errs, check.Same(c.StorageClassName, old.StorageClassName, field.NewPath("storageClassName"))...)
	})
	return k
}

// named marks a column as Kubernetes marks the one of names.
func named(c metav1.TableColumnDefinition) metav1.TableColumnDefinition {
	c.Format = "name"
	return c
}
