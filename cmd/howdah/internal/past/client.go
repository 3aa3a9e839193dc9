package past

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Get asks for a path, and answers the body.
func Get(ctx context.Context, client *rest.RESTClient, path, accept string, query url.Values) ([]byte, error) {
	request := client.Get().AbsPath(path)
	for name, values := range query {
		for _, v := range values {
			request.Param(name, v)
		}
	}
	if accept != "" {
		request.SetHeader("Accept", accept)
	}
	return answer(request.Do(ctx))
}

// answer returns a body, or the error with the Status that the server sent.
func answer(result rest.Result) ([]byte, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	return result.Raw()
}

// Versions asks for versions of an object.
func Versions(ctx context.Context, client *rest.RESTClient, t Target, query url.Values) (*apiv1.HistoryResponse, error) {
	data, err := Get(ctx, client, t.Path(), "", query)
	if err != nil {
		return nil, err
	}
	response := &apiv1.HistoryResponse{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, response); err != nil {
		return nil, fmt.Errorf("the gateway's answer is no history: %w", err)
	}
	return response, nil
}

// State returns the YAML of an object at a moment, without what changes with every write; nothing where it had been deleted. label
// names the version.
func State(ctx context.Context, client *rest.RESTClient, t Target, moment url.Values) (text, label string, err error) {
	query := url.Values{"objects": {"true"}}
	for name, values := range moment {
		query[name] = values
	}
	h, err := Versions(ctx, client, t, query)
	if err != nil {
		return "", "", err
	}
	v := h.GetVersions()[0]
	label = fmt.Sprintf("%s@%d", t, v.GetRevision())
	if v.GetTime() != nil {
		label += "\t" + v.GetTime().AsTime().Format("2006-01-02 15:04:05.000000 -0700")
	}
	if v.GetOperation() == "DELETED" {
		return "", label, nil
	}
	content, err := Content(v)
	if err != nil {
		return "", "", err
	}
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		delete(metadata, "resourceVersion")
	}
	out, err := yaml.Marshal(content)
	return string(out), label, err
}

// Content returns the object of a version.
func Content(v *apiv1.ObjectVersion) (map[string]any, error) {
	var content map[string]any
	if v.GetObjectJson() == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(v.GetObjectJson()), &content); err != nil {
		return nil, fmt.Errorf("version %d is no object: %w", v.GetRevision(), err)
	}
	return content, nil
}
