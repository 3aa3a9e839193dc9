package object

import (
	"context"
	"encoding/json"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Scales reads and writes the scale of the objects of a resource, of any kind. Custom kinds know no other encoding than JSON.
type Scales struct {
	client   *Client
	resource schema.GroupVersionResource
	remote   bool
}

const scaleType = "application/json"

// Scales returns the scales of a resource. remote says that an extension API server serves it.
func (c *Client) Scales(resource schema.GroupVersionResource, remote bool) Scales {
	return Scales{client: c, resource: resource, remote: remote}
}

// Get returns the scale of an object as of now.
func (s Scales) Get(ctx context.Context, namespace, name string) (*autoscalingv1.Scale, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if s.remote {
		client, err := s.extension()
		if err != nil {
			return nil, err
		}
		scale := &autoscalingv1.Scale{}
		return scale, client.Get().Namespace(namespace).Resource(s.resource.Resource).Name(name).SubResource("scale").Do(ctx).Into(scale)
	}
	resp, err := s.client.api.Get(ctx, &apiv1.GetRequest{
		Group: s.resource.Group, Version: s.resource.Version, Resource: s.resource.Resource, Namespace: namespace, Name: name,
		Subresource: "scale", Accept: scaleType,
	})
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	return decodeScale(resp.GetObject())
}

// Update replaces the scale of an object; its resourceVersion, where set, must be current.
func (s Scales) Update(ctx context.Context, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	scale = scale.DeepCopy()
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	ctx, cancel := s.client.write(ctx)
	defer cancel()
	if s.remote {
		client, err := s.extension()
		if err != nil {
			return nil, err
		}
		stored := &autoscalingv1.Scale{}
		return stored, client.Put().Namespace(scale.Namespace).Resource(s.resource.Resource).Name(scale.Name).SubResource("scale").Body(scale).Do(ctx).Into(stored)
	}
	data, err := json.Marshal(scale)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.api.Update(ctx, &apiv1.UpdateRequest{
		Group: s.resource.Group, Version: s.resource.Version, Resource: s.resource.Resource, Namespace: scale.Namespace, Name: scale.Name,
		Subresource: "scale", Object: data, ContentType: scaleType, FieldManager: s.client.manager, Accept: scaleType,
	})
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	return decodeScale(resp.GetObject())
}

func decodeScale(data []byte) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{}
	if err := json.Unmarshal(data, scale); err != nil {
		return nil, fmt.Errorf("decode Scale: %w", err)
	}
	return scale, nil
}

// extension returns the client of the group version on its extension API server.
func (s Scales) extension() (rest.Interface, error) {
	config, gv := s.client.Extensions(), s.resource.GroupVersion()
	config.APIPath, config.GroupVersion, config.ContentType = "/apis", &gv, scaleType
	config.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: serializer.NewCodecFactory(Scheme)}
	return rest.RESTClientFor(config)
}
