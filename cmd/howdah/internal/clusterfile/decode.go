package clusterfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"
)

// Documents is what a file has: nil where it has none of a kind.
type Documents struct {
	Init    *InitConfiguration
	Cluster *ClusterConfiguration
	Join    *JoinConfiguration
}

// Decode reads the documents of a file, YAML or JSON. Fields that are not known or given twice are refused with their path, and so are kinds; all that is wrong is
// reported at once. Nothing is filled in and nothing checked beyond that.
func Decode(data []byte) (Documents, error) {
	var out Documents
	var problems []error
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Documents{}, err
		}
		if len(bytes.TrimSpace(comments.ReplaceAll(text, nil))) == 0 {
			n--
			continue
		}
		if err := out.add(text); err != nil {
			problems = append(problems, fmt.Errorf("document %d: %w", n, err))
		}
	}
	if len(problems) > 0 {
		return Documents{}, errors.Join(problems...)
	}
	if out == (Documents{}) {
		return Documents{}, errors.New("there is no document")
	}
	return out, nil
}

var comments = regexp.MustCompile(`(?m)^\s*(#.*|---.*)?$`)

func (d *Documents) add(text []byte) error {
	body, err := sigsyaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(body, &kind); err != nil {
		return err
	}
	if kind.APIVersion != Version {
		return fmt.Errorf("apiVersion: %q is not %s", kind.APIVersion, Version)
	}
	switch kind.Kind {
	case InitKind:
		return into(body, kind.Kind, &d.Init)
	case ClusterKind:
		return into(body, kind.Kind, &d.Cluster)
	case JoinKind:
		return into(body, kind.Kind, &d.Join)
	}
	return fmt.Errorf("kind: %q is none of %s, %s, %s", kind.Kind, InitKind, ClusterKind, JoinKind)
}

func into[T any](body []byte, kind string, place **T) error {
	if *place != nil {
		return fmt.Errorf("there is a second %s", kind)
	}
	out := new(T)
	unknown, err := strict.UnmarshalStrict(body, out)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	if len(unknown) > 0 {
		slices.SortFunc(unknown, func(a, b error) int { return bytes.Compare([]byte(a.Error()), []byte(b.Error())) })
		return fmt.Errorf("%s: %w", kind, errors.Join(unknown...))
	}
	*place = out
	return nil
}

// Encode writes documents as a file.
func Encode(documents ...any) ([]byte, error) {
	var out bytes.Buffer
	for i, d := range documents {
		text, err := sigsyaml.Marshal(d)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}
