package transaction

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/registry"
)

const jsonMedia = "application/json"

// defaults are the options of items that have none of their own.
type defaults struct {
	operation, namespace, manager, validation, force string
	dryRun                                           []string
}

// write is an item whose object is known.
type write struct {
	operation string
	resource  *registry.Resource
	namespace string
	name      string
	batch     *apiv1.BatchItem
}

// String names the write as errors do: apply deployments.apps "web".
func (w write) String() string {
	text := w.operation
	if w.resource != nil {
		text += " " + w.resource.GroupResource().String()
	}
	if w.name != "" {
		text += " " + strconv.Quote(w.name)
	}
	if w.namespace != "" {
		text += " in namespace " + strconv.Quote(w.namespace)
	}
	return strings.TrimSpace(text)
}

// prepare turns an item into the write that it asks for.
func prepare(table *registry.Table, i item, d defaults) (write, error) {
	w := write{operation: i.Operation}
	if w.operation == "" {
		w.operation = d.operation
	}
	var object metav1.PartialObjectMetadata
	if len(i.Object) == 0 {
		return w, apierrors.NewBadRequest("the item has no object")
	}
	if err := json.Unmarshal(i.Object, &object); err != nil {
		return w, apierrors.NewBadRequest("the object is no manifest: " + err.Error())
	}
	w.name = object.Name
	gvk := schema.FromAPIVersionAndKind(object.APIVersion, object.Kind)
	switch {
	case object.Kind == "":
		return w, apierrors.NewBadRequest("Object 'Kind' is missing")
	case object.APIVersion == "":
		return w, apierrors.NewBadRequest("Object 'apiVersion' is missing")
	}
	if w.resource = table.FindKind(gvk); w.resource == nil || table.Find(w.resource.GVR) == nil {
		return w, apierrors.NewBadRequest(fmt.Sprintf("no matches for kind %q in version %q", object.Kind, object.APIVersion))
	}
	if w.resource.Kind.Namespaced {
		if w.namespace = object.Namespace; w.namespace == "" {
			w.namespace = d.namespace
		}
	}
	if w.name == "" && (w.operation != "create" || object.GenerateName == "") {
		return w, apierrors.NewBadRequest("metadata.name is missing")
	}
	return w, w.compose(i, d)
}

// compose makes the item of the batch.
func (w *write) compose(i item, d defaults) error {
	manager, validation, force := i.FieldManager, i.FieldValidation, d.force
	if manager == "" {
		manager = d.manager
	}
	if validation == "" {
		validation = d.validation
	}
	if i.Force != nil {
		force = strconv.FormatBool(*i.Force)
	}
	gvr := w.resource.GVR
	if err := i.fits(w.operation); err != nil {
		return err
	}
	patch := &apiv1.PatchRequest{
		Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: w.namespace, Name: w.name, Subresource: i.Subresource,
		DryRun: d.dryRun, FieldManager: manager, FieldValidation: validation, Accept: jsonMedia,
	}
	switch w.operation {
	case "create":
		w.batch = &apiv1.BatchItem{Write: &apiv1.BatchItem_Create{Create: &apiv1.CreateRequest{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: w.namespace, Object: i.Object, ContentType: jsonMedia,
			DryRun: d.dryRun, FieldManager: manager, FieldValidation: validation, Accept: jsonMedia,
		}}}
	case "update":
		w.batch = &apiv1.BatchItem{Write: &apiv1.BatchItem_Update{Update: &apiv1.UpdateRequest{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: w.namespace, Name: w.name, Subresource: i.Subresource,
			Object: i.Object, ContentType: jsonMedia, DryRun: d.dryRun, FieldManager: manager, FieldValidation: validation, Accept: jsonMedia,
		}}}
	case "apply":
		patch.Object, patch.ContentType, patch.Force = i.Object, string(types.ApplyYAMLPatchType), force
		w.batch = &apiv1.BatchItem{Write: &apiv1.BatchItem_Patch{Patch: patch}}
	case "patch":
		patch.Object, patch.ContentType = i.Patch, patchTypes[i.PatchType]
		w.batch = &apiv1.BatchItem{Write: &apiv1.BatchItem_Patch{Patch: patch}}
	case "delete":
		w.batch = &apiv1.BatchItem{Write: &apiv1.BatchItem_Delete{Delete: &apiv1.DeleteRequest{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: w.namespace, Name: w.name,
			Options: i.Options, ContentType: jsonMedia, DryRun: d.dryRun, Accept: jsonMedia,
		}}}
	}
	return nil
}

var patchTypes = map[string]string{
	"": string(types.MergePatchType), "merge": string(types.MergePatchType),
	"strategic": string(types.StrategicMergePatchType), "json": string(types.JSONPatchType),
}

// fits refuses what the operation would not look at.
func (i item) fits(operation string) error {
	problem := ""
	switch operation {
	case "create", "update", "apply", "patch", "delete":
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("unknown operation %q: it is one of create, update, apply, patch, delete", operation))
	}
	switch {
	case (len(i.Patch) > 0) != (operation == "patch"):
		problem = "patch belongs to the operation patch, which needs it"
	case i.PatchType != "" && operation != "patch":
		problem = "patchType belongs to the operation patch"
	case patchTypes[i.PatchType] == "":
		problem = fmt.Sprintf("unknown patchType %q: it is one of merge, strategic, json", i.PatchType)
	case len(i.Options) > 0 && operation != "delete":
		problem = "options belongs to the operation delete"
	case i.Force != nil && operation != "apply":
		problem = "force belongs to the operation apply"
	case i.Subresource != "" && (operation == "create" || operation == "delete"):
		problem = "subresource belongs to the operations update, apply and patch"
	case operation == "delete" && (i.FieldManager != "" || i.FieldValidation != ""):
		problem = "fieldManager and fieldValidation do not belong to the operation delete"
	}
	if problem != "" {
		return apierrors.NewBadRequest(problem)
	}
	return nil
}
