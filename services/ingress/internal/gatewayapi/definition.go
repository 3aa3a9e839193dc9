package gatewayapi

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/gateway-api/pkg/consts"
	"sigs.k8s.io/yaml"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// files are the definitions of the standard channel as the Gateway API's module has them; make generate copies them. They are under the Apache License 2.0.
//
//go:embed crd/*.yaml
var files embed.FS

// VersionAnnotation of a definition says of which bundle it is, ChannelAnnotation of which channel.
const (
	VersionAnnotation = consts.BundleVersionAnnotation
	ChannelAnnotation = consts.ChannelAnnotation
)

// Definitions is the kind of definitions, read as metadata.
var Definitions = object.Metadata(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "customresourcedefinitions", false)

// definition is one of ours.
type definition struct {
	metav1.PartialObjectMetadata
	json []byte
}

func definitions() ([]definition, error) {
	entries, err := files.ReadDir("crd")
	if err != nil {
		return nil, err
	}
	var out []definition
	for _, e := range entries {
		text, err := files.ReadFile("crd/" + e.Name())
		if err != nil {
			return nil, err
		}
		var d definition
		if d.json, err = yaml.YAMLToJSON(text); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		if err := yaml.Unmarshal(text, &d.PartialObjectMetadata); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		out = append(out, d)
	}
	return out, nil
}

// Install creates the definitions that are missing. Those that are there stay as they are; and where one of them is of another bundle, somebody else looks after
// them all, and nothing is created: definitions of two bundles do not go together. It returns whether GatewayClasses are defined.
func Install(ctx context.Context, client *object.Client, manager string) (bool, error) {
	ours, err := definitions()
	if err != nil {
		return false, err
	}
	there := object.For(client, Definitions)
	var missing []definition
	others := false
	for _, d := range ours {
		have, err := there.Get(ctx, "", d.Name)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, d)
		case err != nil:
			return false, fmt.Errorf("read the definition %s: %w", d.Name, err)
		case have.Annotations[VersionAnnotation] != d.Annotations[VersionAnnotation] || have.Annotations[ChannelAnnotation] != d.Annotations[ChannelAnnotation]:
			others = true
		}
	}
	if others {
		if len(missing) > 0 {
			slog.InfoContext(ctx, "the Gateway API's definitions are of another bundle: those that it lacks are not added")
		}
		missing = nil
	}
	for _, d := range missing {
		_, err := client.API().Create(ctx, &apiv1.CreateRequest{
			Group: Definitions.GVK.Group, Version: Definitions.GVK.Version, Resource: Definitions.Resource,
			Object: d.json, ContentType: "application/json", FieldManager: manager, Accept: "application/json",
		})
		if err = apistatus.FromGRPC(err); err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("create the definition %s: %w", d.Name, err)
		}
	}
	return Defined(ctx, client)
}

// Defined reports whether GatewayClasses are defined.
func Defined(ctx context.Context, client *object.Client) (bool, error) {
	name := GatewayClass.GroupResource().String()
	_, err := object.For(client, Definitions).Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Names are those of the definitions.
func Names() ([]string, error) {
	all, err := definitions()
	var out []string
	for _, d := range all {
		out = append(out, d.Name)
	}
	slices.Sort(out)
	return out, err
}
